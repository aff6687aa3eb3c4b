"""Committed offsets, decided and applied: durable first, then seen."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from broker.groups.commits import (
    GROUP_OFFSETS_BYTES,
    OFFSET_BYTES,
    Changed,
    ChangeDropped,
    ChangeOffsets,
    Commits,
    OffsetsChanged,
    OffsetsWritten,
)
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
    assert commits.are_written("g") == commits.are_written("h") == {(1, 0)}
    for serial, code in zip(serials, (ErrorCode.NONE, FAILED), strict=False):
        asked(commits, OffsetsWritten(serial, code))
    assert (commits.are_written("g"), commits.are_written("h")) == ({(1, 0)}, set())
    asked(commits, OffsetsWritten(serials[2]))
    assert not commits.are_written("g")
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


CHANGES = st.builds(
    ChangeOffsets,
    st.sampled_from("gh"),
    st.dictionaries(
        st.tuples(st.integers(1, 2), st.integers(0, 1)),
        st.builds(Committed, st.integers(0, 9)),
        max_size=3,
    ),
    st.none()
    | st.lists(st.tuples(st.just(1), st.integers(0, 1)), max_size=2).map(tuple),
)


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
