"""Committed offsets, decided and applied: durable first, then seen."""

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.groups.commits import (
    AddPending,
    Changed,
    ChangeDropped,
    ChangeOffsets,
    Commits,
    EndPending,
    OffsetsChanged,
    OffsetsChanging,
    OffsetsWritten,
    PendingAdding,
    PendingEnding,
)
from broker.groups.offset_bytes import GROUP_OFFSETS_BYTES, OFFSET_BYTES
from broker.groups.offsets import Committed
from broker.protocol.errors import ErrorCode

FAILED = ErrorCode.COORDINATOR_NOT_AVAILABLE


def asked(commits: Commits, command) -> int:
    """Decide and apply; the serial of what is to be written."""
    decision = commits.decide(command, 0)
    for event in decision.events:
        commits.apply(event)
    return decision.events[0].serial


def test_a_change_is_seen_once_it_is_written():
    commits = Commits()
    offsets = {(1, 0): Committed(5)}
    serial = asked(commits, ChangeOffsets("g", offsets))
    assert not commits.of("g")
    asked(commits, OffsetsWritten(serial))
    assert commits.of("g") == offsets
    assert list(commits.ids()) == ["g"]


def test_a_change_that_could_not_be_written_is_not_made():
    commits = Commits()
    first = asked(commits, ChangeOffsets("g", {(1, 0): Committed(5)}))
    other = asked(commits, ChangeOffsets("g", {(1, 1): Committed(6)}))
    asked(commits, OffsetsWritten(first, FAILED))
    asked(commits, OffsetsWritten(other))
    assert list(commits.of("g")) == [(1, 1)]
    assert not commits.writing


def test_what_a_group_is_writing_is_known_without_a_look_at_all_others():
    """A sweep asks it of thousands of groups, while thousands of changes wait."""

    class NotLookedThrough(dict):
        def values(self):
            raise AssertionError("all groups' changes are looked through")

    commits = Commits(writing=NotLookedThrough())
    offsets = {(1, 0): Committed(5)}
    serials = [asked(commits, ChangeOffsets(g, offsets)) for g in ("g", "h", "g")]
    assert all(
        commits.being_committed(one, [(1, 0), (1, 1)]) == {(1, 0)} for one in "gh"
    )
    for serial, code in zip(serials, (ErrorCode.NONE, FAILED), strict=False):
        asked(commits, OffsetsWritten(serial, code))
    assert commits.being_committed("g", [(1, 0)]) == {(1, 0)}
    assert not commits.being_committed("h", [(1, 0)])
    asked(commits, OffsetsWritten(serials[2]))
    assert not commits.being_committed("g", [(1, 0)])
    assert not commits.writing_of


def test_who_asked_hears_it_with_the_durable_event():
    decision = Commits().decide(ChangeOffsets("g", {}, None, "t"), 0)
    assert [event.durable for event in decision.events] == [True]
    assert decision.replies == (("t", Changed()),)


def test_a_group_without_offsets_is_not_known():
    commits = Commits()
    offsets = {(1, 0): Committed(5), (2, 0): Committed(6)}
    steps = ((offsets, ()), ({}, ((2, 0), (9, 9))), ({}, ((1, 0),)))
    for wanted, (upserts, removed) in zip((2, 1, 0), steps, strict=True):
        change = ChangeOffsets("g", upserts, removed)
        asked(commits, OffsetsWritten(asked(commits, change)))
        assert len(commits.of("g")) == wanted
    assert not list(commits.ids())


# -- within transactions ----------------------------------------------------------


def made(commits: Commits, command) -> None:
    """Decide, apply, and write what is to be written."""
    for event in commits.decide(command, 0).events:
        commits.apply(event)
        for done in commits.decide(OffsetsWritten(event.serial), 0).events:
            commits.apply(done)


FIVE, SIX = {(1, 0): Committed(5)}, {(1, 0): Committed(6)}


def test_what_is_pending_is_seen_by_nobody_and_unstable() -> None:
    commits = Commits()
    made(commits, ChangeOffsets("g", FIVE))
    serial = asked(commits, AddPending("g", 7, SIX))
    assert not commits.unstable("g")
    asked(commits, OffsetsWritten(serial))
    assert commits.of("g") == FIVE
    (unstable,) = commits.unstable("g")
    assert set(unstable) == commits.being_committed("g", [(1, 0)]) == {(1, 0)}


@pytest.mark.parametrize(("producers", "each", "said"), [(1, 300, 2), (300, 1, 300)])
def test_what_stays_pending_is_not_looked_at_when_the_group_says_more(
    producers: int, each: int, said: int
) -> None:
    looked_at = []

    class Key(tuple):
        __eq__ = tuple.__eq__

        def __hash__(self) -> int:
            looked_at.append(self)
            return tuple.__hash__(self)

    commits, before = Commits(), Commits()
    pending = [
        {Key((1, producer * each + n)): Committed(n, metadata="m") for n in range(each)}
        for producer in range(producers)
    ]
    for producer, offsets in enumerate(pending):
        made(commits, AddPending("g", producer, offsets))
    newer = {Key((1, 2 * n)): Committed(9) for n in range(said)}
    looked_at.clear()
    made(commits, ChangeOffsets("g", newer))
    assert len(looked_at) < 20 * (producers + said)
    left = [{k: o for k, o in one.items() if k not in newer} for one in pending]
    made(before, ChangeOffsets("g", newer))
    for producer, offsets in enumerate(left):
        if offsets:
            made(before, AddPending("g", producer, offsets))
    assert commits.pending == before.pending
    assert commits.held_bytes == before.held_bytes
    assert commits.held_pending == before.held_pending


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_a_transaction_decides_what_was_pending(commit: bool) -> None:
    commits = Commits()
    made(commits, ChangeOffsets("g", FIVE))
    made(commits, AddPending("g", 7, SIX))
    made(commits, AddPending("g", 8, {(1, 1): Committed(1)}))
    made(commits, EndPending("g", 7, commit))
    assert commits.of("g") == (SIX if commit else FIVE)
    assert [set(one) for one in commits.unstable("g")] == [{(1, 1)}]
    made(commits, EndPending("g", 8, False))
    assert not commits.pending


def test_some_of_what_is_pending_is_decided_and_the_rest_is_pending_yet() -> None:
    commits = Commits()
    both = {(1, 0): Committed(5), (1, 1): Committed(6)}
    made(commits, AddPending("g", 7, both))
    made(commits, EndPending("g", 7, True, some={(1, 0): both[1, 0]}))
    assert commits.of("g") == {(1, 0): Committed(5)}
    assert [set(one) for one in commits.unstable("g")] == [{(1, 1)}]
    made(commits, EndPending("g", 8, True, some={}))
    made(commits, EndPending("g", 7, False, some={(1, 1): both[1, 1]}))
    assert (commits.of("g"), commits.pending) == ({(1, 0): Committed(5)}, {})
    assert not commits.held_pending


def test_what_is_pending_takes_room_once_and_its_end_no_more() -> None:
    commits = Commits()
    named = {(1, 0): Committed(5, metadata="m" * 100)}
    added = commits.added_pending_bytes("g", 7, named)
    made(commits, AddPending("g", 7, named))
    assert commits.held_bytes == added > 100
    assert commits.added_pending_bytes("g", 7, named) == 0
    assert commits.added_pending_bytes("g", 7, {(1, 0): Committed(6)}) == -100
    more = {(1, 1): Committed(1)}
    another = commits.added_pending_bytes("g", 7, more)
    made(commits, AddPending("g", 7, more))
    assert commits.held_bytes == added + another
    made(commits, EndPending("g", 7, True))
    assert commits.held_bytes == added + another
    made(commits, ChangeOffsets("g", {}, None))
    assert commits.held_bytes == 0


def test_what_is_found_pending_at_a_start_takes_the_same_room() -> None:
    commits, found = Commits(), Commits()
    named = {(1, 0): Committed(5, metadata="m" * 100)}
    made(commits, AddPending("g", 7, named))
    for _ in range(2):
        found.set_pending("g", 7, dict(named))
        assert found.held_bytes == commits.held_bytes > 100
    found.take_pending("g", 7, None)
    assert found.held_bytes == 0


def test_a_group_is_known_by_what_is_pending_alone() -> None:
    commits = Commits()
    made(commits, AddPending("g", 7, FIVE))
    made(commits, ChangeOffsets("h", FIVE))
    made(commits, AddPending("h", 7, SIX))
    assert sorted(commits.ids()) == ["g", "h"]
    assert commits.knows("g")
    made(commits, EndPending("g", 7, False))
    assert not commits.knows("g")


def test_an_end_without_anything_pending_is_answered_and_not_written() -> None:
    decision = Commits().decide(EndPending("g", 7, True, "t"), 0)
    assert (decision.events, decision.replies) == ((), (("t", Changed()),))
    assert not Commits().decide(AddPending("g", 7, {}), 0).events


def test_an_end_comes_after_what_is_on_its_way_to_be_pending() -> None:
    commits = Commits()
    first = asked(commits, AddPending("g", 7, SIX))
    second = asked(commits, EndPending("g", 7, True))
    asked(commits, OffsetsWritten(first))
    asked(commits, OffsetsWritten(second))
    assert commits.of("g") == SIX
    assert not commits.pending


def test_what_the_group_says_since_then_is_newer_than_what_is_pending() -> None:
    commits = Commits()
    both = SIX | {(1, 1): Committed(7)}
    made(commits, AddPending("g", 7, both))
    made(commits, ChangeOffsets("g", FIVE))
    assert [set(one) for one in commits.unstable("g")] == [{(1, 1)}]
    made(commits, EndPending("g", 7, True))
    assert commits.of("g") == FIVE | {(1, 1): Committed(7)}


@pytest.mark.parametrize("ends_first", [7, 8])
def test_of_two_transactions_the_later_commit_counts_whichever_ends_last(
    ends_first,
) -> None:
    """As in Kafka 4.3.1, which compares where the two records stand."""
    commits = Commits()
    older = {(1, 0): Committed(30, committed_ms=1), (1, 1): Committed(31)}
    newer = {(1, 0): Committed(20, committed_ms=2)}
    made(commits, AddPending("g", 7, older))
    made(commits, AddPending("g", 8, newer))
    for producer_id in (ends_first, 15 - ends_first):
        made(commits, EndPending("g", producer_id, True))
    assert commits.of("g") == older | newer
    assert not commits.pending


@pytest.mark.parametrize("later_ms", [1_000, 2_000])
@pytest.mark.parametrize("ends_first", [7, 8])
def test_what_is_said_later_is_newer_whatever_the_clock_says(
    later_ms, ends_first
) -> None:
    """It was set back, or both came in one millisecond."""
    commits = Commits()
    made(commits, AddPending("g", 7, {(1, 0): Committed(5, committed_ms=2_000)}))
    later = {(1, 0): Committed(10, committed_ms=later_ms), (1, 1): Committed(3)}
    made(commits, AddPending("g", 8, later))
    for producer_id in (ends_first, 15 - ends_first):
        made(commits, EndPending("g", producer_id, True))
    assert commits.of("g")[1, 0] == Committed(10, committed_ms=2_001)
    assert commits.of("g")[1, 1] == Committed(3), "nobody else has it"


def test_what_an_end_may_supersede_is_named_also_what_is_on_its_way() -> None:
    commits, of_both = Commits(), {(1, 0): Committed(1, committed_ms=1)}
    made(commits, AddPending("g", 7, of_both | {(1, 1): Committed(1)}))
    made(commits, AddPending("g", 9, {(1, 2): Committed(1)}))
    for producer_id, at_ms in ((8, 2), (9, 3), (10, 4)):
        newer = {(1, 0): Committed(2, committed_ms=at_ms)}
        asked(commits, AddPending("g", producer_id, newer))
    [ending] = commits.decide(EndPending("g", 9, True), 0).events
    assert sorted(ending.older) == [(7, (1, 0), 3), (8, (1, 0), 3), (10, (1, 0), 3)]
    [ending] = commits.decide(EndPending("g", 9, False), 0).events
    assert ending.older == ()


def test_a_transaction_that_is_aborted_takes_no_older_ones_place() -> None:
    commits = Commits()
    made(commits, AddPending("g", 7, {(1, 0): Committed(30, committed_ms=1)}))
    made(commits, AddPending("g", 8, {(1, 0): Committed(20, committed_ms=2)}))
    made(commits, EndPending("g", 8, False))
    made(commits, EndPending("g", 7, True))
    assert commits.of("g") == {(1, 0): Committed(30, committed_ms=1)}


@pytest.mark.parametrize("removed", [None, ((1, 0),)])
def test_what_is_deleted_is_not_brought_back_by_a_transaction(removed) -> None:
    commits = Commits()
    made(commits, AddPending("g", 7, SIX))
    made(commits, ChangeOffsets("g", {}, removed))
    made(commits, EndPending("g", 7, True))
    assert not commits.of("g")
    assert not list(commits.ids())


class InOrder:
    """The naive model: what was written, one after another."""

    def __init__(self) -> None:
        self.offsets: dict = {}
        self.pending: dict = {}

    def make(self, event) -> None:
        match event:
            case OffsetsChanging(_, group, upserts, removed):
                gone = [k for k in self.offsets if k[0] == group]
                gone = gone if removed is None else [(group, k) for k in removed]
                newer = [(group, k) for k in upserts]
                for key in gone:
                    self.offsets.pop(key, None)
                for key in list(self.pending):
                    is_gone = removed is None and key[0] == group
                    if is_gone or (key[0], key[2]) in gone + newer:
                        del self.pending[key]
                self.offsets |= {(group, k): one for k, one in upserts.items()}
            case PendingAdding(_, group, producer, offsets):
                found = {(group, producer, k): one for k, one in offsets.items()}
                self.pending |= found
            case PendingEnding(_, group, producer, commit, _, some):
                mine = [k for k in self.pending if k[:2] == (group, producer)]
                for key in [k for k in mine if some is None or k[2] in some]:
                    offset = self.pending.pop(key)
                    if commit:
                        self.offsets[group, key[2]] = offset
                        self.forget_older(group, key[2], offset)

    def forget_older(self, group, key, offset) -> None:
        for other, pending in list(self.pending.items()):
            is_older = pending.committed_ms < offset.committed_ms
            if (other[0], other[2]) == (group, key) and is_older:
                del self.pending[other]


def flat(commits: Commits) -> tuple[dict, dict]:
    return (
        {
            (g, k): one
            for g, found in commits.groups.items()
            for k, one in found.items()
        },
        {
            (g, p, k): one
            for g, by_producer in commits.pending.items()
            for p, found in by_producer.items()
            for k, one in found.items()
        },
    )


def flat_index(commits: Commits) -> set:
    return {
        (group_id, key, producer_id)
        for group_id, by_partition in commits.producers.groups.items()
        for key, producers in by_partition.items()
        for producer_id in producers
    }


def held_by_hand(commits: Commits) -> int:
    """What all of it takes, counted anew."""
    parts = list(commits.groups.items())
    parts += [(g, one) for g, by in commits.pending.items() for one in by.values()]
    parts += [(one.group_id, one.upserts) for one in commits.writing.values()]
    return sum(
        GROUP_OFFSETS_BYTES
        + len(group_id)
        + sum(OFFSET_BYTES + len(one.metadata) for one in offsets.values())
        for group_id, offsets in parts
    )


KEYS = st.tuples(st.integers(1, 2), st.integers(0, 1))
OFFSETS = st.dictionaries(
    KEYS,
    st.builds(
        Committed,
        st.integers(0, 9),
        metadata=st.text("ab", max_size=3),
        committed_ms=st.integers(0, 2),
    ),
    max_size=3,
)
CHANGES = (
    st.builds(
        ChangeOffsets,
        st.sampled_from("gh"),
        OFFSETS,
        st.none() | st.lists(KEYS, max_size=2).map(tuple),
    )
    | st.builds(AddPending, st.sampled_from("gh"), st.integers(7, 8), OFFSETS)
    | st.builds(
        EndPending,
        st.sampled_from("gh"),
        st.integers(7, 8),
        st.booleans(),
        some=st.none() | OFFSETS,
    )
)


@settings(max_examples=300)
@given(st.lists(CHANGES | st.booleans(), max_size=30))
def test_agrees_with_what_was_written_one_after_another(steps) -> None:
    commits, model = Commits(), InOrder()
    for step in [*steps, *[True] * len(steps)]:
        if not isinstance(step, bool):
            for event in commits.decide(step, 0).events:
                commits.apply(event)
        elif commits.writing:
            serial = min(commits.writing)
            if step:
                model.make(commits.writing[serial])
            code = ErrorCode.NONE if step else FAILED
            asked_once = commits.decide(OffsetsWritten(serial, code), 0)
            for event in asked_once.events:
                commits.apply(event)
        assert flat(commits) == (model.offsets, model.pending)
        assert commits.held_bytes == held_by_hand(commits)
        assert flat_index(commits) == {(g, key, p) for g, p, key in model.pending}
    assert all(found for by in commits.pending.values() for found in by.values())


@given(st.lists(CHANGES | st.booleans(), max_size=20))
def test_deciding_changes_nothing_and_a_replay_is_the_same(steps):
    commits, replayed = Commits(), Commits()
    for step in steps:
        command = step
        if isinstance(step, bool):
            if not commits.writing:
                continue
            code = ErrorCode.NONE if step else FAILED
            command = OffsetsWritten(min(commits.writing), code)
        before = deepcopy(commits)
        decision = commits.decide(command, 0)
        assert commits == before
        for event in decision.events:
            commits.apply(event)
            replayed.apply(event)
        assert commits == replayed


def test_the_events_of_a_written_change_need_no_disk():
    assert not OffsetsChanged(1).durable
    assert not ChangeDropped(1).durable


KEYS = st.sampled_from([(1, n) for n in range(3)])
WEIGHED = st.tuples(
    st.sampled_from(["g", "group"]),
    st.dictionaries(
        KEYS, st.builds(Committed, st.just(1), metadata=st.text(max_size=3))
    ),
    st.none() | st.lists(KEYS).map(tuple),
)


@given(changes=st.lists(WEIGHED, max_size=12))
def test_what_they_take_is_the_sum_of_what_is_there(changes):
    commits = Commits()
    for group_id, upserts, removed in changes:
        expected = commits.held_bytes + commits.added_bytes(group_id, upserts)
        serial = asked(commits, ChangeOffsets(group_id, upserts, removed))
        asked(commits, OffsetsWritten(serial))
        if removed == () and upserts:
            assert commits.held_bytes == expected
        each = [one for found in commits.groups.values() for one in found.values()]
        metadata = sum(len(one.metadata) for one in each)
        ids = sum(GROUP_OFFSETS_BYTES + len(group_id) for group_id in commits.groups)
        assert commits.held_bytes == ids + metadata + OFFSET_BYTES * len(each)
        for group_id, offsets in commits.groups.items():
            metadata = sum(len(one.metadata) for one in offsets.values())
            offsets_bytes = OFFSET_BYTES * len(offsets) + metadata
            held = GROUP_OFFSETS_BYTES + len(group_id) + offsets_bytes
            assert commits.held_of[group_id] == held
        assert commits.held_of.keys() == commits.groups.keys()


def test_who_looks_at_a_group_that_goes_sees_what_it_had():
    commits = Commits()
    asked(
        commits,
        OffsetsWritten(asked(commits, ChangeOffsets("g", {(1, 0): Committed(5)}))),
    )
    before = commits.of("g")
    asked(commits, OffsetsWritten(asked(commits, ChangeOffsets("g", {}, None))))
    assert before == {(1, 0): Committed(5)}
    assert not commits.of("g")


def test_many_that_are_pending_are_not_each_compared_with_many_that_change():
    compared = []

    class Key(tuple):
        __hash__ = tuple.__hash__

        def __eq__(self, other: object) -> bool:
            compared.append(self)
            return tuple.__eq__(self, other)

    commits = Commits()
    made(commits, AddPending("g", 7, {Key((1, n)): Committed(n) for n in range(200)}))
    compared.clear()
    made(commits, ChangeOffsets("g", {Key((2, n)): Committed(n) for n in range(200)}))
    assert [len(one) for one in commits.unstable("g")] == [200]
    assert len(compared) < 2_000
