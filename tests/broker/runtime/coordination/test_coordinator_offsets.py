"""Offsets are durable before they are visible, in order, many to a transaction."""

import asyncio
import random
from concurrent.futures import Future
from functools import partial
from itertools import pairwise

import pytest

from broker.catalog.catalog import Catalog
from broker.groups.offsets import Committed
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordination.coordinator_offsets import (
    CHANGED_A_TURN,
    CommittedOffsets,
)
from broker.runtime.coordination.journal import Journal
from tests.support.clock import ManualClock
from tests.support.coordinating import story
from tests.support.timers import ManualTimers


class HeldCatalog:
    """A catalog whose commits succeed or fail when the test says so."""

    def __init__(self) -> None:
        self.held: list[Future] = []

    def write(self, change, told) -> None:
        self.held.append(Future())
        self.held[-1].add_done_callback(lambda done: told(done.exception()))


def offsets_of(catalog) -> CommittedOffsets:
    clock = ManualClock()
    return CommittedOffsets(Journal(catalog), ManualTimers(clock), clock)


def test_nothing_is_visible_before_it_is_durable():
    async def play():
        catalog = HeldCatalog()
        offsets = offsets_of(catalog)
        done = offsets.commit("g", {(1, 0): Committed(5)})
        await asyncio.sleep(0)
        assert (done.done(), dict(offsets.of("g"))) == (False, {})
        catalog.held[0].set_result(None)
        await done
        assert dict(offsets.of("g")) == {(1, 0): Committed(5)}

    story(play)


def test_commits_gather_in_the_catalog(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            offsets, before = offsets_of(catalog), catalog.commits
            await asyncio.gather(
                *(offsets.commit("g", {(1, 0): Committed(n)}) for n in range(500))
            )
            assert catalog.commits - before < 100
            assert offsets.of("g")[1, 0].offset == 499

    story(play)


def test_a_failure_fails_who_waits_changes_nothing_and_the_next_may_succeed():
    async def play():
        catalog = HeldCatalog()
        offsets = offsets_of(catalog)
        failed = offsets.commit("g", {(1, 0): Committed(5)})
        later = offsets.commit("g", {(1, 1): Committed(6)})
        error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
        catalog.held[0].set_exception(error)
        with pytest.raises(KafkaError) as told:
            await failed
        assert told.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        catalog.held[1].set_result(None)
        await later
        assert list(offsets.of("g")) == [(1, 1)]

    story(play)


def test_who_went_away_does_not_disturb_the_others():
    async def play():
        catalog = HeldCatalog()
        offsets = offsets_of(catalog)
        gone = offsets.commit("g", {(1, 0): Committed(5)})
        gone.cancel()
        catalog.held[0].set_result(None)
        await offsets.flush()
        assert offsets.of("g")[1, 0].offset == 5

    story(play)


def test_a_closed_catalog_refuses(tmp_path):
    async def play():
        catalog = Catalog.open(tmp_path / "catalog.db")
        offsets = offsets_of(catalog)
        catalog.close()
        with pytest.raises(KafkaError):
            await offsets.commit("g", {(1, 0): Committed(5)})
        offsets.expire("g", [(1, 0)])
        await offsets.flush()

    story(play)


def test_changes_keep_their_order_in_the_catalog(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            offsets = offsets_of(catalog)
            steps = [
                offsets.commit("g", {(1, 0): Committed(1), (1, 1): Committed(1)}),
                offsets.delete_group("g"),
                offsets.commit("g", {(1, 1): Committed(2), (2, 0): Committed(3)}),
                offsets.delete("g", [(2, 0), (9, 9)]),
                offsets.commit("h", {(1, 0): Committed(7, 4, "note", 5, 6)}),
                offsets.commit("i", {(1, 0): Committed(1)}),
                offsets.delete("i", [(1, 0)]),
            ]
            await asyncio.gather(*steps)
            again = offsets_of(catalog)
            again.load()
            for one in (offsets, again):
                assert {g: dict(one.of(g)) for g in one.groups()} == {
                    "g": {(1, 1): Committed(2)},
                    "h": {(1, 0): Committed(7, 4, "note", 5, 6)},
                }
            assert isinstance(again.of("h")[1, 0], Committed)

    story(play)


@pytest.mark.parametrize("seed", range(5))
def test_a_start_finds_what_memory_had(tmp_path, seed):
    """Committed, pending, ended and superseded offsets, in any order."""

    async def play():
        chance = random.Random(seed)
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            offsets = offsets_of(catalog)
            waits = []
            for n in range(150):
                group, producer = chance.choice("gh"), chance.choice((7, 8))
                some = {(1, chance.randrange(3)): Committed(n, 4, "m", n, -1)}
                match chance.randrange(5):
                    case 0:
                        waits.append(offsets.commit(group, some))
                    case 1 | 2:
                        waits.append(offsets.commit_pending(group, producer, some))
                    case 3:
                        commits = chance.random() < 0.7
                        waits.append(
                            offsets.end_pending(group, producer, commits=commits)
                        )
                    case 4:
                        if chance.random() < 0.2:
                            waits.append(offsets.delete_group(group))
                        else:
                            waits.append(offsets.delete(group, tuple(some)))
                if chance.random() < 0.3:
                    await asyncio.gather(*waits)
            await asyncio.gather(*waits)
            again = offsets_of(catalog)
            again.load()
            for group in "gh":
                assert again.of(group) == offsets.of(group)
                one, other = again.unstable(group), offsets.unstable(group)
                assert set().union(*one) == set().union(*other)
            assert again._commits.pending == offsets._commits.pending

    story(play)


def test_what_is_pending_does_not_expire(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            offsets = offsets_of(catalog)
            await offsets.commit("g", {(1, 0): Committed(5), (1, 1): Committed(5)})
            await offsets.commit_pending("g", 7, {(1, 0): Committed(6)})
            offsets.expire("g", [(1, 0), (1, 1)])
            await offsets.flush()
            assert set(offsets.of("g")) == {(1, 0)}
            await offsets.end_pending("g", 7, commits=True)
            assert offsets.of("g") == {(1, 0): Committed(6)}

    story(play)


def many(first, count=CHANGED_A_TURN):
    return {(1, n): Committed(first) for n in range(first, first + count)}


def test_a_group_that_goes_during_a_change_in_parts_leaves_nothing(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            offsets = offsets_of(catalog)
            await offsets.commit_pending("g", 7, {(1, 1): Committed(3)})
            commit = partial(offsets.commit, "g")
            parts = offsets.in_order("g", many(0, 2 * CHANGED_A_TURN), commit)
            while not offsets.of("g"):  # until the first part is made
                await asyncio.sleep(0)
            waiting = offsets.in_order("g", many(0, 1), commit)
            ended = offsets.end_pending("g", 7, commits=True)
            await asyncio.gather(offsets.delete_group("g"), parts, waiting, ended)
            await offsets.flush()
            assert not offsets.knows("g")
            await offsets.end_pending("g", 7, commits=True)
            again = offsets_of(catalog)
            again.load()
            assert (offsets.knows("g"), again.knows("g")) == (False, False)
            assert offsets.held_bytes == 0

    story(play)


def test_what_waited_for_a_group_that_could_not_be_deleted_is_refused():
    async def play():
        catalog = HeldCatalog()
        offsets = offsets_of(catalog)
        commit = partial(offsets.commit, "g")
        doing = [offsets.in_order("g", many(0, 2 * CHANGED_A_TURN), commit)]
        await written(catalog, 1)
        doing += [offsets.in_order("g", many(0, 1), commit), offsets.delete_group("g")]
        later = offsets.in_order("g", many(7, 1), commit)
        assert len(catalog.held) == 3  # the first part, the deletion, and what is later
        full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
        for held, error in zip(catalog.held, (None, full, None), strict=True):
            held.set_exception(error) if error else held.set_result(None)
        refused = await asyncio.gather(*doing, return_exceptions=True)
        codes = {one.code for one in refused}
        assert codes == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        await later
        await offsets.flush()
        assert len(catalog.held) == 3
        assert len(offsets.of("g")) == CHANGED_A_TURN

    story(play)


def test_changes_that_waited_for_one_in_parts_are_made_together():
    """One by one they would be slower than they come, and never catch up."""

    async def play():
        catalog = HeldCatalog()
        offsets = offsets_of(catalog)
        commit = partial(offsets.commit, "g")

        def commit_one(n):
            return offsets.in_order("g", {(1, 0): Committed(n)}, commit)

        def commit_many():
            return offsets.in_order("g", many(0, CHANGED_A_TURN + 1), commit)

        done = [commit_many(), *map(commit_one, range(1, 20))]
        done[5].cancel()  # its client went away
        await written(catalog, 1)
        catalog.held[0].set_result(None)
        await written(catalog, 2)
        assert len(catalog.held) == 2
        catalog.held[1].set_result(None)
        await written(catalog, 21)
        done += [commit_many(), commit_one(20)]
        catalog.held[2].set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full"))
        for held in catalog.held[3:]:
            held.set_result(None)
        for later in (21, 22, 23):
            await written(catalog, later + 1)
            assert len(catalog.held) == later + 1
            catalog.held[later].set_result(None)
        told = await asyncio.gather(*done, return_exceptions=True)
        failed = [n for n, one in enumerate(told) if one is not None]
        assert failed == [1, 5]
        assert offsets.of("g")[1, 0].offset == 20
        await offsets.flush()

    story(play)


def test_a_group_waits_for_nothing_once_all_is_handed_on():
    """Not only when it is durable: somebody always commits to a busy group."""

    async def play():
        catalog = HeldCatalog()
        offsets = offsets_of(catalog)
        commit = partial(offsets.commit, "g")
        offsets.in_order("g", many(0, CHANGED_A_TURN + 1), commit)
        offsets.in_order("g", many(0, 1), commit)
        for part in range(2):
            await written(catalog, part + 1)
            catalog.held[part].set_result(None)
        await written(catalog, 3)
        offsets.in_order("g", many(0, 1), commit)
        assert len(catalog.held) == 4
        for held in catalog.held[2:]:
            held.set_result(None)
        await offsets.flush()

    story(play)


def test_old_offsets_expire_in_a_group_that_is_always_changed_in_parts():
    async def play():
        catalog = HeldCatalog()
        offsets = offsets_of(catalog)
        offsets.commit("g", many(0, 3))
        catalog.held[0].set_result(None)
        await offsets.flush()
        commit = partial(offsets.commit, "g")
        done = offsets.in_order("g", many(1, CHANGED_A_TURN + 1), commit)
        await written(catalog, 2)
        offsets.expire("g", [(1, 0), (1, 1)])  # of which one is committed anew
        assert len(catalog.held) == 3
        for part in (1, 2, 3):
            await written(catalog, part + 1)
            catalog.held[part].set_result(None)
        await done
        assert dict(offsets.of("g")) == many(1, CHANGED_A_TURN + 1)

    story(play)


def commit_all(offsets, number):
    return offsets.commit("g", many(number * CHANGED_A_TURN))


def commit_pending(offsets, number):
    return offsets.commit_pending("g", number, many(number * CHANGED_A_TURN))


def end_pending(offsets, number):
    return offsets.end_pending("g", number, commits=True)


def pending_in_three_parts(offsets):
    """More is pending for producer 7 than one turn decides about; when it is."""
    adds = [many(first * CHANGED_A_TURN) for first in range(3)]
    return [offsets.commit_pending("g", 7, part) for part in adds]


@pytest.mark.parametrize("commits", [True, False])
def test_an_end_of_much_is_durable_and_shown_in_parts(tmp_path, commits):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            offsets = offsets_of(catalog)
            await asyncio.gather(*pending_in_three_parts(offsets))
            left = [3 * CHANGED_A_TURN]
            ended = offsets.end_pending("g", 7, commits=commits)
            after = offsets.in_order("g", many(0, 1), partial(offsets.commit, "g"))
            while not ended.done():
                await asyncio.sleep(0)
                left.append(sum(map(len, offsets.unstable("g"))))
            await after
            steps = [a - b for a, b in pairwise(left)]
            assert (max(steps), left[-1]) == (CHANGED_A_TURN, 0)
            again = offsets_of(catalog)
            again.load()
            for found in (offsets, again):
                assert len(found.of("g")) == (3 * CHANGED_A_TURN if commits else 1)
                assert not found.unstable("g")

    story(play)


def test_an_end_comes_behind_all_that_is_on_its_way(tmp_path):
    """Behind offsets that are not pending yet, and behind what is newer than they."""

    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            offsets = offsets_of(catalog)
            on_their_way = pending_in_three_parts(offsets)
            newer = offsets.commit("g", {(1, 0): Committed(77)})
            await offsets.end_pending("g", 7, commits=True)
            assert newer.done()
            assert all(one.done() for one in on_their_way)
            again = offsets_of(catalog)
            again.load()
            for found in (offsets, again):
                assert found.of("g")[1, 0] == Committed(77)
                assert len(found.of("g")) == 3 * CHANGED_A_TURN
                assert not found.unstable("g")

    story(play)


def test_an_end_does_not_write_what_is_being_superseded(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            offsets = offsets_of(catalog)
            await asyncio.gather(*pending_in_three_parts(offsets))
            newer = offsets.commit("g", {(1, 0): Committed(77)})
            await offsets.end_pending("g", 7, commits=True)
            await newer
            again = offsets_of(catalog)
            again.load()
            assert again.of("g") == offsets.of("g")
            assert again.of("g")[1, 0] == Committed(77)

    story(play)


def test_an_end_that_failed_after_some_parts_goes_on_when_it_is_asked_again():
    async def play():
        catalog = HeldCatalog()
        offsets = offsets_of(catalog)
        adding = pending_in_three_parts(offsets)
        for held in catalog.held:
            held.set_result(None)
        await asyncio.gather(*adding)
        ended = offsets.end_pending("g", 7, commits=True)
        for part in range(3, 5):  # the one that ends nothing, and the first
            await written(catalog, part + 1)
            catalog.held[part].set_result(None)
        await written(catalog, 6)
        catalog.held[5].set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full"))
        with pytest.raises(KafkaError, match="full"):
            await ended
        assert len(offsets.of("g")) == CHANGED_A_TURN
        assert sum(map(len, offsets.unstable("g"))) == 2 * CHANGED_A_TURN
        again = offsets.end_pending("g", 7, commits=True)
        for part in range(6, 9):
            await written(catalog, part + 1)
            catalog.held[part].set_result(None)
        await again
        assert len(offsets.of("g")) == 3 * CHANGED_A_TURN
        assert not offsets.unstable("g")

    story(play)


@pytest.mark.parametrize(
    ("before", "change"),
    [(None, commit_all), (None, commit_pending), (commit_pending, end_pending)],
)
def test_changes_that_are_durable_together_are_shown_in_many_turns(before, change):
    async def play():
        catalog = HeldCatalog()
        offsets = offsets_of(catalog)
        seen = []
        for act in filter(None, (before, change)):
            begun = len(catalog.held)
            done = [act(offsets, number) for number in range(20)]
            for held in catalog.held[begun:]:
                held.set_result(None)
            seen = [0]
            while not all(one.done() for one in done):
                await asyncio.sleep(0)
                seen.append(sum(one.done() for one in done))
        assert max(b - a for a, b in pairwise(seen)) == 1

    story(play)


async def written(catalog, count):
    """So many changes were asked of the catalog."""
    for _ in range(1_000):
        if len(catalog.held) >= count:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{len(catalog.held)} of {count} changes")


def any_change(chance, number):
    """A change of one of two groups, of few offsets or many; how it is asked for."""
    group, producer = chance.choice("gh"), chance.choice((7, 8))
    some = {
        (1, key): Committed(number, metadata="m" * chance.randrange(3))
        for key in chance.sample(range(30), chance.choice((1, 2, 9, 20)))
    }
    match chance.randrange(6):
        case 0 | 1:
            return lambda to: to.in_order(group, some, partial(to.commit, group))
        case 2:
            add = partial(CommittedOffsets.commit_pending, group_id=group)
            return lambda to: to.in_order(
                group, some, lambda part: add(to, producer_id=producer, offsets=part)
            )
        case 3:
            commits = chance.random() < 0.7
            return lambda to: to.end_pending(group, producer, commits=commits)
        case 4 if chance.random() < 0.3:
            return lambda to: to.delete_group(group)
    return lambda to: to.delete(group, list(some))


def whenever_said(offsets: CommittedOffsets) -> tuple[dict, dict]:
    """All that is there, and pending. What comes in parts is later, each by a moment,
    where others have the same pending."""
    commits = offsets._commits
    return (
        {
            (group, key): one._replace(committed_ms=0)
            for group, found in commits.groups.items()
            for key, one in found.items()
        },
        {
            (group, producer, key): one._replace(committed_ms=0)
            for group, of_group in commits.pending.items()
            for producer, found in of_group.items()
            for key, one in found.items()
        },
    )


@pytest.mark.parametrize("seed", range(4))
def test_changes_in_parts_come_to_what_they_would_one_by_one(
    tmp_path, monkeypatch, seed
):
    module = "broker.runtime.coordination.coordinator_offsets"

    async def play():
        chance = random.Random(seed)
        changes = [any_change(chance, number) for number in range(150)]
        with Catalog.open(tmp_path / "one.db") as catalog:
            wanted = offsets_of(catalog)
            for change in changes:
                await change(wanted)
        monkeypatch.setattr(f"{module}.CHANGED_A_TURN", 4)
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            offsets, again = offsets_of(catalog), offsets_of(catalog)
            waits = []
            for change in changes:
                waits.append(change(offsets))
                for _ in range(chance.choice((0, 0, 1, 50))):
                    await asyncio.sleep(0)
            await asyncio.gather(*waits)
            await offsets.flush()
            again.load()
            for found in (offsets, again):
                assert whenever_said(found) == whenever_said(wanted)
                assert found.held_bytes == wanted.held_bytes

    story(play)
