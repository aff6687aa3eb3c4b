"""Offsets are durable before they are visible, in order, many to a transaction."""

import asyncio
import random
from concurrent.futures import Future
from functools import partial

import pytest

from broker.catalog.catalog import Catalog
from broker.groups.offsets import Committed
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordination.coordinator_offsets import CommittedOffsets
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
                assert again.unstable(group) == offsets.unstable(group)
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


def test_a_group_that_goes_after_a_change_in_parts_leaves_nothing_pending(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            offsets = offsets_of(catalog)
            await offsets.commit_pending("g", 7, {(1, 1): Committed(3)})
            some = {(1, 0): Committed(1)}
            parts = offsets.in_parts("g", lambda: offsets.commit("g", some))
            await asyncio.gather(parts, offsets.delete_group("g"))
            assert not offsets.knows("g")
            await offsets.end_pending("g", 7, commits=True)
            again = offsets_of(catalog)
            again.load()
            assert (offsets.knows("g"), again.knows("g")) == (False, False)

    story(play)


def test_changes_that_waited_for_one_in_parts_are_made_together():
    """One by one they would be slower than they come, and never catch up."""

    async def play():
        catalog = HeldCatalog()
        offsets = offsets_of(catalog)
        many = [{(1, 0): Committed(0)}, {(1, 1): Committed(0)}]

        async def in_parts():
            for part in many:
                await offsets.commit("g", part)

        def commit(n):
            some = {(1, 0): Committed(n)}
            return offsets.in_order("g", partial(offsets.commit, "g", some))

        done = [offsets.in_parts("g", in_parts), *(commit(n) for n in range(1, 20))]
        done[5].cancel()  # its client went away
        await written(catalog, 1)
        catalog.held[0].set_result(None)
        await written(catalog, 2)
        assert len(catalog.held) == 2
        catalog.held[1].set_result(None)
        await written(catalog, 21)
        done += [offsets.in_parts("g", in_parts), commit(20)]
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
        assert (offsets._in_parts, offsets._waiting) == ({}, {})

    story(play)


async def written(catalog, count):
    """So many changes were asked of the catalog."""
    for _ in range(1_000):
        if len(catalog.held) >= count:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{len(catalog.held)} of {count} changes")
