"""What an owner is seen to do in a table's directories, and what follows from it."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import pytest
from structlog.testing import capture_logs

from broker.catalog import holds, requests
from jobs import pace
from jobs.check import check_data_directory
from jobs.compactor import Compactor
from jobs.merging.rewrite import MergeTask
from jobs.owners.standing_back import StandingBack
from jobs.rows import Failed, FileTask, Written
from lakehouse.log import delta_log
from lakehouse.watching import inotify as watching
from tests.jobs.world import MergesHere, World, here, later, some, start_at
from tests.support.patience import IDLE_S
from tests.support.tables import rows

WAIT_MS = 30_000


def attempt(path: Path, name: str = "partition=0/part-00000-77.c000.parquet") -> Path:
    """A file that no commit names, as an owner's DELETE leaves before it commits."""
    file = path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"PAR1")
    return file


def table_with_rows(
    world: World, compactor: Compactor, partitions: int = 1, name: str = "theirs"
) -> Any:
    topic = world.topic(name, partitions)
    world.produce(topic, some(10))
    world.flush(compactor)
    compactor.step()  # from now on it is watched
    return topic


def owners_commit(world: World, topic: Any) -> None:
    deltalake.DeltaTable(str(world.path(topic))).delete("offset = 3")


@pytest.mark.parametrize(
    "name",
    [
        "partition=0/part-00000-77.c000.parquet",
        "partition=7/part-00000-77.c000.parquet",
        "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin",
    ],
)
def test_an_attempt_is_waited_for_and_his_commit_ends_it(
    world: World, name: str
) -> None:
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    attempt(world.path(topic), name)
    world.produce(topic, some(10))
    world.flush(compactor)
    assert len(world.rows(topic)) == 10
    status = compactor.status()
    assert (status.waits_for_owners, status.counters["owner_waits_total"]) == (1, 1)
    owners_commit(world, topic)
    compactor.step()
    assert compactor.status().waits_for_owners == 0
    assert len(world.rows(topic)) == 19


def test_a_table_that_was_replaced_while_too_much_happened_is_watched(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compactor = world.compactor()
    path = world.path(table_with_rows(world, compactor))
    path.rename(tmp_path / "away")
    shutil.copytree(tmp_path / "away", path)
    lost = watching.Appeared("", "")
    with monkeypatch.context() as much:
        much.setattr(watching.Watch, "_parsed", lambda self, data: iter([lost]))
        compactor.step()
    compactor.step()
    attempt(path)
    compactor.step()
    assert compactor.status().waits_for_owners == 1


def test_a_table_that_was_away_for_a_while_is_watched_again(
    world: World, tmp_path: Path
) -> None:
    """As where its disk goes and comes back; it is looked for before it is missed."""
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    path = world.path(topic)
    world.release()  # so that nobody makes another one
    path.rename(tmp_path / "away")
    compactor.step()
    with capture_logs() as logs:
        compactor.step()
    assert logs == []
    (tmp_path / "away").rename(path)
    later(world, compactor, 1_000)
    compactor.step()
    attempt(path)
    compactor.step()
    assert compactor.status().waits_for_owners == 1


def test_nobody_waits_for_an_attempt_that_came_to_nothing_for_ever(
    world: World,
) -> None:
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    world.produce(topic, some(10))
    for at in range(0, WAIT_MS, 1_000):
        attempt(world.path(topic), f"partition=0/part-{at}.parquet")
        later(world, compactor, 1_000)
        assert len(world.rows(topic)) == 10, at
    later(world, compactor, 1_000)
    assert len(world.rows(topic)) == 20
    world.check_rows()


def test_a_table_that_is_far_behind_catches_up_whoever_tries_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One round of bounded size each half minute would be less than comes."""
    monkeypatch.setattr(pace, "FULL_ROUND_BYTES", 1)
    monkeypatch.setattr(pace, "WORKER_BYTES", 1)
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    for _ in range(20):
        world.produce(topic, some(10))
    for at in range(0, 2 * WAIT_MS, 1_000):
        attempt(world.path(topic), f"partition=0/part-{at}.parquet")
        later(world, compactor, 1_000)
    world.check_rows()


@pytest.mark.parametrize(
    "name",
    [
        "partition=0/.part-00000-77.c000.parquet.crc",
        "partition=0/_temporary.parquet",
        "partition=0/notes.txt",
        "_delta_log/00000000000000000000.crc",
        "partition=0/00000000000000000010-00000000000000000020-1-2-3.parquet",
        "partition=0/copied-1-2-e3.parquet",
    ],
)
def test_what_is_no_attempt_is_not_waited_for(world: World, name: str) -> None:
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    attempt(world.path(topic), name)
    world.produce(topic, some(10))
    world.flush(compactor)
    world.check_rows()


def test_another_topic_goes_on(world: World) -> None:
    compactor = world.compactor()
    topic, other = table_with_rows(world, compactor), world.topic("other")
    attempt(world.path(topic))
    for one in (topic, other):
        world.produce(one, some(10))
    world.flush(compactor)
    assert (len(world.rows(topic)), len(world.rows(other))) == (10, 10)


def test_who_asks_for_a_topic_does_not_wait_for_its_owner(world: World) -> None:
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    attempt(world.path(topic))
    world.produce(topic, some(10))
    world.catalog.change(lambda c: requests.ask(c, ["theirs"], 1))
    while compactor.step():
        pass
    world.check_rows()


def test_nobody_is_waited_for_where_that_is_turned_off(world: World) -> None:
    compactor = world.compactor(owner_wait_ms=0)
    topic = table_with_rows(world, compactor)
    attempt(world.path(topic))
    world.produce(topic, some(10))
    world.flush(compactor)
    world.check_rows()


def test_a_round_that_is_written_when_an_attempt_is_seen_is_not_committed(
    world: World,
) -> None:
    seen: list[Path] = []

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        done = here(tasks)
        if seen:
            attempt(seen.pop())
        return done

    compactor = world.compactor(spread)
    topic = table_with_rows(world, compactor)
    seen.append(world.path(topic))
    before = set(world.path(topic).rglob("*.parquet"))
    world.produce(topic, some(10))
    world.flush(compactor)
    assert len(world.rows(topic)) == 10
    assert len(set(world.path(topic).rglob("*.parquet")) - before) == 1  # the owner's
    assert compactor.counters.rounds_failed == 0
    owners_commit(world, topic)
    world.flush(compactor)
    assert len(world.rows(topic)) == 19
    assert check_data_directory(world.data_dir).problems == []


def test_a_table_that_is_made_anew_is_watched_anew(world: World) -> None:
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    world.path(topic).rename(world.data_dir / "aside")
    later(world, compactor)
    compactor.step()
    world.check_rows()
    attempt(world.path(topic))
    world.produce(topic, some(10))
    world.flush(compactor)
    assert len(world.rows(topic)) == 10


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "DIRECTORIES_MAX", 4)


@pytest.mark.usefixtures("full")
def test_tables_beyond_what_the_kernel_remembers_are_compacted_all_the_same(
    world: World,
) -> None:
    compactor = world.compactor()
    topics = [world.topic(f"t{n}") for n in range(4)]
    for _ in range(2):
        for topic in topics:
            world.produce(topic, some(10))
        world.flush(compactor)
    world.check_rows()


class Crowded(watching.Watch):
    """The system's watches are used up, by others and by four of ours."""

    def add(self, path: str) -> bool:
        if len(self.below("/")) >= 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().add(path)


def test_where_the_system_has_no_more_watches_that_is_said_once(world: World) -> None:
    """And a table is watched whole or not at all, once there is room again."""
    compactor = world.compactor()
    topics = [table_with_rows(world, compactor, name=f"t{n}") for n in range(3)]
    tables: Any = [
        SimpleNamespace(topic=topic, path=str(world.path(topic))) for topic in topics
    ]
    back = StandingBack(world.catalog, world.clock, WAIT_MS, Crowded)
    with capture_logs() as logs:
        for _ in range(2):
            back.look({one.number: one for one in topics}, tables)
    (said,) = [one for one in logs if one["log_level"] == "warning"]
    assert said["event"] == "owners of more tables are not waited for"
    assert (said["watched"], said["limit_of_the_system"]) == (
        1,
        "fs.inotify.max_user_watches",
    )
    for topic in topics:
        attempt(world.path(topic))
    back.look_again()
    assert back.attempts == {topics[0].number}
    left = topics[1:]
    back.look({one.number: one for one in left}, tables[1:])
    attempt(world.path(left[0]), "partition=0/part-00000-78.c000.parquet")
    back.look_again()
    assert back.attempts == {left[0].number}
    back.close()


def test_a_system_without_inotify_waits_for_nobody(world: World) -> None:
    def none() -> watching.Watch:
        raise OSError("no")

    back = StandingBack(world.catalog, world.clock, WAIT_MS, none)
    back.look({}, [])
    assert back.attempts == frozenset()
    back.close()


def hold(world: World, topic: Any, for_ms: int = 600_000, by: str = holds.OWNER) -> int:
    now_ms = world.clock.now_ms()
    return world.catalog.change(
        lambda c: holds.hold(c, topic.id.hex(), by, now_ms, for_ms)
    )


def release(world: World, topic: Any) -> None:
    world.catalog.change(lambda c: holds.release(c, topic.id.hex()))


def version(world: World, topic: Any) -> int:
    return delta_log.load(str(world.path(topic))).version


def test_which_tables_an_erasure_alone_holds_is_told(world: World) -> None:
    compactor = world.compactor()
    both, one, none = map(world.topic, ("both", "one", "none"))
    hold(world, both)
    for topic in (both, one):
        hold(world, topic, by=holds.ERASURE)
    compactor.step()
    status = compactor.status()
    assert (set(status.holds), status.erased) == ({"both", "one"}, ("one",))
    for topic in (both, one, none):
        release(world, topic)
    compactor.step()
    assert compactor.status().erased == ()


@pytest.mark.parametrize("ends", ["released", "over"])
def test_nothing_is_committed_to_a_table_that_is_held(world: World, ends: str) -> None:
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    other = world.topic("other")
    until_ms = hold(world, topic)
    before = version(world, topic)
    for _ in range(3):
        for one in (topic, other):
            world.produce(one, some(10))
        world.flush(compactor)
    start_at(world, topic, 10)  # retention, too, waits
    later(world, compactor, 60_000)
    assert version(world, topic) == before
    assert len(world.rows(other)) == 30
    status = compactor.status()
    assert (status.holds, status.held) == ({"theirs": until_ms}, 1)
    assert (status.stuck, status.problems) == (0, ())
    if ends == "released":
        release(world, topic)
        compactor.step()
    else:
        later(world, compactor, 600_000)
    assert compactor.status().holds == {}
    later(world, compactor, 60_000)
    later(world, compactor, 60_000)
    assert [one.offset for one in world.rows(topic)] == list(range(10, 40))


def test_a_hold_outlives_the_compactor(world: World) -> None:
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    hold(world, topic)
    world.produce(topic, some(10))
    compactor.stop()
    world.flush(world.compactor())
    assert len(world.rows(topic)) == 10


class Begun(MergesHere):
    """Calls ``then`` when a merge has begun."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__()
        self._then = then

    def start(self, task: MergeTask) -> None:
        super().start(task)
        self._then()


def test_a_merge_of_a_table_that_is_held_comes_to_nothing(world: World) -> None:
    merges = Begun(lambda: hold(world, topic))
    compactor = world.compactor(merges=merges, merge=True)
    topic = table_with_rows(world, compactor)
    while not merges.tasks:
        world.produce(topic, some(10))
        world.flush(compactor)
    before = version(world, topic)
    for _ in range(5):
        later(world, compactor)
    assert (version(world, topic), len(merges.tasks)) == (before, 1)
    assert compactor.counters.merges == 0
    release(world, topic)
    merges._then = lambda: None
    while not compactor.counters.merges:
        later(world, compactor)
    world.check_rows()
    assert check_data_directory(world.data_dir).problems == []


def test_an_owners_insert_is_no_reason_to_wait_longer_than_he_takes(
    world: World,
) -> None:
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    deltalake.write_deltalake(
        str(world.path(topic)), rows(0, [1_000], "theirs"), mode="append"
    )
    world.produce(topic, some(10))
    world.flush(compactor)
    assert len(world.rows(topic)) == 21


def test_an_entry_that_is_no_file_is_not_waited_for(world: World) -> None:
    """Who opens a pipe waits for whoever writes to it."""
    compactor = world.compactor()
    topic = table_with_rows(world, compactor)
    entry = world.path(topic) / "_delta_log" / f"{99:020d}.json"
    os.mkfifo(entry)
    steps = threading.Thread(target=compactor.step, daemon=True)
    steps.start()
    steps.join(IDLE_S)
    is_stuck = steps.is_alive()
    while steps.is_alive():  # let it go, so that nobody else waits for it
        os.close(os.open(entry, os.O_RDWR | os.O_NONBLOCK))
        steps.join(0.01)
    assert not is_stuck
