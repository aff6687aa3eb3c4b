"""Checkpoints come by themselves, behind the rounds, at the table's own interval."""

import json
import os
from pathlib import Path

import deltalake
import pytest
from structlog.testing import capture_logs

from broker.ids import TopicNumber
from broker.topics.topic import Topic
from jobs.checkpoints import CLEAN_UP_MS, STEP_MS, Checkpoints, due_version
from jobs.tables import Table, Tables
from lakehouse.errors import CommitRefused
from lakehouse.log.delta_log import LOG_DIRECTORY, entry_path, load, read_entry
from tests.jobs.world import World, some
from tests.support.clock import ManualClock
from tests.support.tables import TOPIC_ID, Writer

TOPIC = Topic(TopicNumber(7), bytes.fromhex(TOPIC_ID), "orders", 2, {})


def each(path: str, versions: str) -> None:
    """The owner sets his table's interval; by hand, so that no library makes any."""
    actions = [json.loads(line) for line in read_entry(path, 0).splitlines()]
    [metadata] = [action for action in actions if "metaData" in action]
    metadata["metaData"]["configuration"]["delta.checkpointInterval"] = versions
    entry = Path(entry_path(path, load(path).version + 1))
    entry.write_text(json.dumps(metadata) + "\n")


def checkpoints(path: str) -> list[int]:
    names = os.listdir(os.path.join(path, LOG_DIRECTORY))
    return sorted(int(n[:20]) for n in names if n.endswith(".checkpoint.parquet"))


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def test_it_is_due_once_at_each_interval(writer: Writer) -> None:
    each(writer.path, "3")
    due = []
    for n in range(6):
        writer.add(0, n * 10, n * 10 + 10)
        snapshot = load(writer.path)
        due.append(due_version(snapshot))
        if due[-1] == 6:
            deltalake.DeltaTable(writer.path, version=6).create_checkpoint()
    assert due == [None, 3, 3, 3, 6, None]
    assert load(writer.path).checkpoint == 6


def test_an_interval_that_is_no_number_is_ours(writer: Writer) -> None:
    writer.add(0, 0, 10)
    snapshot = load(writer.path)
    assert snapshot.metadata is not None
    for said in ("", "0", "ten", "-1"):
        snapshot.metadata.configuration["delta.checkpointInterval"] = said  # type: ignore[index]
        snapshot.version = 199
        assert due_version(snapshot) == 100


def test_an_interval_of_any_length_fells_no_round(writer: Writer) -> None:
    writer.add(0, 0, 10)
    snapshot = load(writer.path)
    assert snapshot.metadata is not None
    for said in ("9" * 18, "9" * 5_000):  # the longer is no number to int()
        snapshot.metadata.configuration["delta.checkpointInterval"] = said  # type: ignore[index]
        assert due_version(snapshot) is None


def test_the_compactor_makes_them_and_rounds_go_on_from_them(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    path = str(world.path(topic))
    world.produce(topic, some(3))
    world.flush(compactor)
    each(path, "4")
    for _ in range(9):
        world.produce(topic, some(3))
        world.flush(compactor)
    compactor.step()
    assert checkpoints(path) == [4, 8]
    assert load(path).checkpoint == 8
    world.produce(topic, some(3))
    world.flush(world.compactor())  # a new one begins at the checkpoint
    world.check_rows()


def tables_of(tmp_path: Path, count: int) -> dict[TopicNumber, Table]:
    found = {}
    for n in range(count):
        name, topic_id = f"t{n}", f"{n:032x}"
        writer = Writer(str(tmp_path), name, topic_id)
        each(writer.path, "2")
        writer.add(0, 0, 10)
        topic = Topic(TopicNumber(n), bytes.fromhex(topic_id), name, 1, {})
        found[TopicNumber(n)] = Tables(str(tmp_path)).open(topic)
    return found


class Slow(ManualClock):
    """Each look at it takes as long as a step may."""

    def monotonic_ms(self) -> int:
        self.advance(STEP_MS)
        return super().monotonic_ms()


def test_many_that_are_due_together_are_made_one_step_after_the_other(
    tmp_path: Path,
) -> None:
    tables = tables_of(tmp_path, 3)
    made = Checkpoints(tables.get, Slow())
    for table in tables.values():
        made.note(table)
    seen = []
    for _ in range(4):
        made.make(lambda: True)
        seen.append(sum(len(checkpoints(table.path)) for table in tables.values()))
    assert seen == [1, 2, 3, 3]


def test_in_one_step_as_many_are_made_as_there_is_time_for(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, 3)
    made = Checkpoints(tables.get, ManualClock())
    for table in tables.values():
        made.note(table)
    made.make(lambda: False)
    assert [checkpoints(table.path) for table in tables.values()] == [[], [], []]
    made.make(lambda: True)
    assert [checkpoints(table.path) for table in tables.values()] == [[2], [2], [2]]


def test_one_that_fails_waits_for_the_next_interval(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, 1)
    [table] = tables.values()
    made = Checkpoints(tables.get, ManualClock())
    made.note(table)
    hint = Path(table.path) / LOG_DIRECTORY / "_last_checkpoint"
    hint.symlink_to(hint)  # no read of it succeeds
    made.make(lambda: True)
    assert checkpoints(table.path) == []
    hint.unlink()
    made.note(table)
    made.make(lambda: True)
    assert checkpoints(table.path) == []
    table.snapshot.version = 4
    made.note(table)
    assert due_version(table.snapshot) == 4


def test_what_expired_of_a_log_goes_behind_a_checkpoint_once_an_hour(
    tmp_path: Path,
) -> None:
    writer, clock = Writer(str(tmp_path)), ManualClock()
    each(writer.path, "2")
    table = Tables(str(tmp_path)).open(TOPIC)
    made = Checkpoints({TOPIC.number: table}.get, clock)
    first = []
    for hours in (0, 0.5, 0.5, 0.1):
        clock.advance(int(hours * CLEAN_UP_MS))
        for _ in range(2):
            writer.add(0, table.snapshot.version * 10, table.snapshot.version * 10 + 10)
            table.snapshot = load(writer.path)
        made.note(table)
        made.make(lambda: True)
        for name in Path(writer.path, LOG_DIRECTORY).iterdir():
            os.utime(name, (1, 1))  # all of it expires
        first.append(min(Path(writer.path, LOG_DIRECTORY).glob("0*.json")).stem[-1])
    assert first == ["0", "0", "4", "4"]


def test_what_cannot_be_cleaned_is_said_and_the_checkpoint_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(snapshot: object, now_ms: int) -> int:
        raise CommitRefused("a checkpoint cannot be read")

    monkeypatch.setattr("jobs.checkpoints.clean_up", refuse)
    [table] = tables_of(tmp_path, 1).values()
    made = Checkpoints({table.topic.number: table}.get, ManualClock())
    made.note(table)
    with capture_logs() as said:
        made.make(lambda: True)
    assert [(one["event"], one["why"]) for one in said] == [
        ("a table's log is not cleaned", "a checkpoint cannot be read")
    ]
    assert checkpoints(table.path) == [2]


def test_a_table_that_is_gone_needs_none(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, 1)
    made = Checkpoints(lambda number: None, ManualClock())
    for table in tables.values():
        made.note(table)
    made.make(lambda: True)
    assert [checkpoints(table.path) for table in tables.values()] == [[]]
