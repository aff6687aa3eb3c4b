"""What a table's owner does to it stops his topic or partition, and no other."""

import json
import shutil
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from broker.catalog import requests
from jobs.check import check_data_directory
from jobs.rows import Failed, FileTask, Written
from jobs.stuck import MOVED_PAUSE_MS
from lakehouse.log import delta_log
from tests.jobs.world import World, here, some
from tests.support.batches import Record
from tests.support.partitioned_anew import columns_anew, partition_anew
from tests.support.tables import rows


def protocol(writer: list[str], reader: list[str]) -> dict[str, Any]:
    return {
        "protocol": {
            "minReaderVersion": 3 if reader else 1,
            "minWriterVersion": 7,
            "writerFeatures": ["appendOnly", "invariants", *writer, *reader],
            **({"readerFeatures": reader} if reader else {}),
        }
    }


OWNERS_CHANGES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "in-commit timestamps": (
        protocol(["inCommitTimestamp"], []),
        {"delta.enableInCommitTimestamps": "true"},
    ),
    "row tracking": (
        protocol(["rowTracking", "domainMetadata"], []),
        {"delta.enableRowTracking": "true"},
    ),
    "v2 checkpoints": (
        protocol([], ["v2Checkpoint"]),
        {"delta.checkpointPolicy": "v2"},
    ),
    "column mapping": (
        protocol([], ["columnMapping"]),
        {"delta.columnMapping.mode": "name"},
    ),
    "variant": (protocol([], ["variantType"]), {}),
    "a feature to come": (protocol([], ["from2040"]), {}),
    "deletion vectors": (
        protocol([], ["deletionVectors"]),
        {"delta.enableDeletionVectors": "true"},
    ),
}


def entries(path: Path) -> list[dict[str, Any]]:
    """The actions of a log entry."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def change_table(world: World, topic: Any, name: str) -> Path:
    """Commit an owner's change to the table's protocol; the log entry."""
    change, properties = OWNERS_CHANGES[name]
    log = world.path(topic) / "_delta_log"
    first = entries(log / f"{0:020d}.json")
    [metadata] = [line["metaData"] for line in first if "metaData" in line]
    metadata["configuration"] |= properties
    entry = log / f"{len(list(log.glob('*.json'))):020d}.json"
    actions = [change, {"metaData": metadata}]
    entry.write_text("\n".join(map(json.dumps, actions)))
    return entry


@pytest.mark.parametrize("name", OWNERS_CHANGES)
def test_an_owners_change_stops_his_topic_alone(world: World, name: str) -> None:
    theirs, other = world.topic("theirs"), world.topic("other")
    compactor = world.compactor()
    for topic in (theirs, other):
        world.produce(topic, some(10))
    world.flush(compactor)
    entry = change_table(world, theirs, name)
    for _ in range(4):
        for topic in (theirs, other):
            world.produce(topic, some(10))
        world.flush(compactor)
    compactor.step()
    status = compactor.status()
    assert len(world.rows(other)) == 50
    committed = delta_log.load(str(world.path(theirs))).version > int(entry.stem)
    if committed:  # our writer knows this feature: then all of it is there
        assert (status.stuck, status.problems) == (0, ())
        return
    assert status.stuck == 1
    [problem] = status.problems
    assert problem.startswith("theirs cannot be compacted: ")
    state = status.tables[0]
    assert (state.topic, state.stuck, state.ends) == ("theirs", True, {0: 10})
    assert state.why in problem
    assert state.pending_bytes > 0
    entry.unlink()  # its owner thinks again
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert compactor.status().stuck == 0
    world.check_rows()


def undo_change(world: World, topic: Any) -> None:
    """Commit what makes a table plain again, as DROP FEATURE does."""
    log = world.path(topic) / "_delta_log"
    first = entries(log / f"{0:020d}.json")
    plain = [line for line in first if "protocol" in line or "metaData" in line]
    entry = log / f"{len(list(log.glob('*.json'))):020d}.json"
    entry.write_text("\n".join(map(json.dumps, plain)))


def test_a_table_that_refuses_is_tried_by_one_small_slice(world: World) -> None:
    tried: list[int] = []

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        batches = [len(b.bases) // 8 for t in tasks for f in t for b in f.slices]
        tried.append(sum(batches))
        return here(tasks)

    topic = world.topic("theirs", 2)
    compactor = world.compactor(spread)
    world.produce(topic, some(10))
    world.flush(compactor)
    change_table(world, topic, "row tracking")
    for n in range(20):
        world.produce(topic, [Record(value=b"%20d" % n * 2000)], n % 2)
    world.flush(compactor)
    tried.clear()
    for _ in range(10 * 60):
        world.clock.advance(1_000)
        compactor.step()
    assert max(tried) <= 2
    assert 8 <= len(tried) <= 16
    undo_change(world, topic)
    world.clock.advance(MOVED_PAUSE_MS)
    world.flush(compactor)
    world.check_rows()
    compactor.step()
    assert compactor.status().stuck == 0


def test_an_owner_who_commits_all_the_time_costs_few_tries(world: World) -> None:
    topic, compactor = world.topic("theirs"), world.compactor()
    world.produce(topic, some(10))
    world.flush(compactor)
    change_table(world, topic, "row tracking")
    world.produce(topic, some(10))
    world.flush(compactor)
    before = compactor.counters.rounds
    for _ in range(60):
        change_table(world, topic, "row tracking")
        world.clock.advance(1_000)
        compactor.step()
    first_pauses = 2  # of one and two seconds
    tries = compactor.counters.rounds - before
    assert 5 < tries <= first_pauses + 60_000 / MOVED_PAUSE_MS


def test_a_request_makes_a_stuck_topic_be_tried_at_once(world: World) -> None:
    topic, other, compactor = world.topic("t"), world.topic("o"), world.compactor()
    for one in (topic, other):
        world.produce(one, some(10))
    world.flush(compactor)
    for one in (topic, other):
        change_table(world, one, "row tracking")
        world.produce(one, some(10))
    for _ in range(3):
        world.flush(compactor)
    for one in (topic, other):
        undo_change(world, one)
    compactor.step()
    assert len(world.rows(topic)) == 10  # it waits its pause out
    world.catalog.change(lambda c: requests.ask(c, ["t"], 1))
    while compactor.step():
        pass
    assert world.rows(topic) == world.produced[topic.number, 0]
    assert len(world.rows(other)) == 10
    compactor.step()
    assert world.catalog.read(requests.pending) == []


def test_each_request_ends_one_pause_once(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, some(10))
    world.flush(compactor)
    change_table(world, topic, "row tracking")
    world.produce(topic, some(10))
    for _ in range(3):
        world.flush(compactor)
    compactor.step()
    assert compactor.status().tables[0].request_id == 0
    for tries in (1, 2):
        before = compactor.counters.rounds
        asked = world.catalog.change(lambda c: requests.ask(c, ["t"], 1))
        for _ in range(10):
            compactor.step()
        assert compactor.counters.rounds == before + 1, tries
        assert compactor.status().tables[0].request_id == asked


def test_what_failed_before_a_request_was_seen_does_not_know_it(world: World) -> None:
    topic, asked = world.topic("t"), []
    world.produce(topic, some(10))

    def damaged(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        if not asked:
            ask = world.catalog.change(lambda c: requests.ask(c, None, 1))
            asked.append(ask)
        return [[Failed(t.path, "damage", stale=False) for t in task]
                for task in tasks]  # fmt: skip

    compactor = world.compactor(damaged)
    world.flush(compactor)  # while the round runs, somebody asks
    found = []
    for _ in range(2):
        compactor.step()
        found.append(compactor.status().tables[0].request_id)
    assert found == [0, asked[0]]
    assert compactor.counters.rounds == 2


def test_a_damaged_log_of_one_table_stops_its_topic_alone(world: World) -> None:
    theirs, other = world.topic("theirs"), world.topic("other")
    world.produce(theirs, some(10))
    world.flush(world.compactor())
    entry = world.path(theirs) / "_delta_log" / f"{0:020d}.json"
    kept = entry.read_bytes()
    entry.write_bytes(kept[:100])
    compactor = world.compactor()
    for _ in range(3):
        for topic in (theirs, other):
            world.produce(topic, some(10))
        world.flush(compactor)
    compactor.step()
    status = compactor.status()
    assert len(world.rows(other)) == 30
    assert (status.stuck, status.unreadable_tables) == (1, 1)
    assert not status.tables[0].readable
    assert "torn" in status.tables[0].why
    entry.write_bytes(kept)
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert (compactor.status().stuck, compactor.status().unreadable_tables) == (0, 0)
    world.check_rows()


@pytest.mark.parametrize("how", ["page", "footer", "empty", "missing", "older", "hint"])
def test_a_damaged_checkpoint_of_a_tables_log_stops_nobody(
    world: World, how: str
) -> None:
    """A power cut leaves one empty, since nobody has synced it yet; the library opened
    no such table, and its topic was stuck for good."""
    topic, compactor = world.topic("t"), world.compactor()
    log = world.path(topic) / "_delta_log"
    for count in (1, 2) if how == "older" else (1,):
        for _ in range(3):
            world.produce(topic, some(10))
            world.flush(compactor)
        deltalake.DeltaTable(str(world.path(topic))).create_checkpoint()
        assert len(list(log.glob("*.checkpoint.parquet"))) == count
    checkpoint = max(log.glob("*.checkpoint.parquet"))
    data = bytearray(checkpoint.read_bytes())
    if how == "page":
        data[512:1024] = bytes(512)
    elif how == "footer":
        data[-512:] = bytes(512)
    hint = log / "_last_checkpoint"
    if how == "hint":  # no read of it succeeds, as of a damaged sector
        hint.unlink()
        hint.symlink_to(hint)
    else:
        checkpoint.write_bytes(data if how in ("page", "footer") else b"")
    if how == "missing":
        checkpoint.unlink()
    [problem] = check_data_directory(world.data_dir).problems
    name = hint.name if how in ("missing", "hint") else checkpoint.name
    assert problem.startswith(f"t: {name} of its log cannot be read")
    world.produce(topic, some(10))
    world.flush(compactor)
    world.clock.advance(MOVED_PAUSE_MS)
    world.flush(compactor)
    world.check_rows()
    compactor.step()
    assert compactor.status().problems == ()
    assert check_data_directory(world.data_dir).problems == []


def test_a_replaced_table_comes_back_as_its_owner_had_it(world: World) -> None:
    """The log still has what he had deleted."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, some(10))
    world.flush(compactor)
    path = str(world.path(topic))
    deltalake.DeltaTable(path).delete("offset = 3")
    theirs = pa.schema([("a", pa.int32())])
    deltalake.DeltaTable.create(path, theirs, mode="overwrite")
    world.produce(topic, some(10))
    for _ in range(2):
        world.flush(compactor)
        world.clock.advance(60_000)
    compactor.step()
    [problem] = compactor.status().problems
    assert problem.endswith(
        ": RESTORE it to version 2, and delete again what was deleted since"
    )
    deltalake.DeltaTable(path).restore(2)
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert compactor.status().problems == ()
    assert [row.offset for row in world.rows(topic)] == [0, 1, 2, *range(4, 20)]


def test_a_table_without_partitions_gets_nothing_until_it_has_them(
    world: World,
) -> None:
    """As a DataFrame is written over it, with overwriteSchema and no partitionBy: what
    we added would reach no consumer, and who restores the version before loses it."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, some(10))
    world.flush(compactor)
    path = str(world.path(topic))
    partition_anew(path, [])
    version = delta_log.load(path).version
    world.produce(topic, some(10))
    for _ in range(2):
        world.flush(compactor)
        world.clock.advance(60_000)
    compactor.step()
    [problem] = compactor.status().problems
    assert "partitioned by nothing, not by partition: overwrite it with" in problem
    assert delta_log.load(path).version == version
    partition_anew(path, ["partition"])
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert compactor.status().problems == ()
    assert [row.offset for row in world.rows(topic)] == [*range(10, 20)]


def test_a_table_whose_offsets_are_integers_gets_nothing_until_they_are_long(
    world: World,
) -> None:
    """As a DataFrame is written over it, with overwriteSchema and a cast: Spark could
    not read what we added."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, some(10))
    world.flush(compactor)
    path = str(world.path(topic))
    columns_anew(path, lambda fields: fields[1].update(type="integer"))
    version = delta_log.load(path).version
    world.clock.advance(60_000)
    compactor.step()
    [state] = compactor.status().tables  # before any record waits for it
    assert (state.stuck, state.readable) == (False, True)
    assert "takes no commit: its column offset is integer, and was long" in state.why
    world.produce(topic, some(10))
    for _ in range(2):
        world.flush(compactor)
        world.clock.advance(60_000)
    compactor.step()
    [problem] = compactor.status().problems
    assert "its column offset is integer, and was long: write it once more" in problem
    assert delta_log.load(path).version == version
    columns_anew(path, lambda fields: None)
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert compactor.status().problems == ()
    assert [row.offset for row in world.rows(topic)] == [*range(10, 20)]


def test_a_column_with_a_default_stops_its_topic_until_that_is_dropped(
    world: World,
) -> None:
    """ALTER COLUMN x SET DEFAULT, and DROP DEFAULT: the feature stays."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, some(10))
    world.flush(compactor)
    path = str(world.path(topic))
    feature = protocol(["allowColumnDefaults"], [])
    theirs = {"name": "x", "type": "string", "nullable": True}
    for said in ({"CURRENT_DEFAULT": "'foo'"}, {}):
        entry = Path(delta_log.entry_path(path, delta_log.load(path).version + 1))
        metadata = delta_log.load(path).metadata
        assert metadata is not None
        schema = json.loads(metadata.schema_string)
        ours = [one for one in schema["fields"] if one["name"] != "x"]
        schema["fields"] = [*ours, theirs | {"metadata": said}]
        body = metadata.body | {"schemaString": json.dumps(schema)}
        entry.write_text("\n".join(map(json.dumps, [feature, {"metaData": body}])))
        world.produce(topic, some(10))
        for _ in range(2):
            world.clock.advance(60_000)
            world.flush(compactor)
        compactor.step()
        whys = [
            "not as they were made: ['x']" in p for p in compactor.status().problems
        ]
        assert whys == ([True] if said else [])
    world.check_rows()


def test_a_table_without_the_column_of_the_values_gets_nothing_until_it_has_it(
    world: World,
) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, some(10))
    world.flush(compactor)
    path = str(world.path(topic))
    columns_anew(path, lambda fields: fields.pop(6))
    world.clock.advance(60_000)
    compactor.step()
    [state] = compactor.status().tables  # before any record waits for it
    sentence = "its table takes no commit: its column value is missing, and consumers"
    assert state.why.startswith(sentence)
    assert state.why.endswith("if nothing was added since (DESCRIBE HISTORY)")
    world.produce(topic, some(10))
    for _ in range(2):
        world.flush(compactor)
        world.clock.advance(60_000)
    compactor.step()
    [problem] = compactor.status().problems
    assert "its column value is missing, and consumers would take" in problem
    deltalake.DeltaTable(path).restore(1)
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert compactor.status().problems == ()
    world.check_rows()


def test_an_owners_clone_of_another_table_is_left_where_it_is(world: World) -> None:
    """CREATE OR REPLACE TABLE orders CLONE clicks: its properties name clicks. What
    is set aside as the table of a deleted topic is deleted with that topic."""
    orders, clicks = world.topic("orders"), world.topic("clicks")
    compactor = world.compactor()
    world.produce(clicks, some(10))
    world.flush(compactor)
    shutil.copytree(world.path(clicks), world.path(orders))
    world.produce(orders, some(10))
    world.produce(clicks, some(10))
    world.flush(compactor)
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert len(world.rows(clicks)) == 20
    assert len(world.rows(orders)) == 10
    [problem] = compactor.status().problems
    assert "orders holds the table of topic clicks" in problem
    world.path(orders).rename(world.data_dir / "elsewhere")
    world.clock.advance(60_000)
    world.flush(compactor)
    world.check_rows()


@pytest.mark.parametrize(
    ("to_itself", "why"),
    [
        (False, "theirs does not lie in"),  # its owner moved it to a larger disk
        # it cannot even be looked at, as a directory without permission cannot
        (True, "Too many levels of symbolic links"),
    ],
)
def test_a_link_in_a_tables_place_stops_its_topic_alone(
    world: World, to_itself: bool, why: str
) -> None:
    theirs, other = world.topic("theirs"), world.topic("other")
    compactor = world.compactor()
    path, away = world.path(theirs), world.data_dir / "away"
    for turn in range(4):
        if turn == 1:
            path.rename(away)
            path.symlink_to(path if to_itself else away)
        for topic in (theirs, other):
            world.produce(topic, some(10))
        world.flush(compactor)
    compactor.step()
    assert len(world.rows(other)) == 40
    [problem] = compactor.status().problems
    assert why in problem
    if not to_itself:
        [found] = check_data_directory(world.data_dir).problems
        assert why in found
    path.unlink()
    away.rename(path)
    world.clock.advance(60_000)
    world.flush(compactor)
    world.check_rows()


def test_what_was_carried_reaches_its_table_once(world: World) -> None:
    stuck, busy = world.topic("stuck"), world.topic("busy")
    compactor = world.compactor()
    for topic in (stuck, busy):
        world.produce(topic, some(10))
    world.flush(compactor)
    entry = change_table(world, stuck, "row tracking")
    for at in range(4):
        world.produce(stuck, some(10), skip=at)
        world.produce(busy, some(50))
        world.flush(compactor)
        world.roll()
    world.carry({(busy.number, 0): 210, (stuck.number, 0): 10})
    assert len(world.wal.segments()) == 1
    world.produce(stuck, some(10))
    world.flush(compactor)
    assert len(world.rows(stuck)) == 10
    assert check_data_directory(world.data_dir).ok
    entry.unlink()
    world.clock.advance(60_000)
    world.flush(compactor)
    world.check_rows()
    compactor.step()
    assert compactor.status().stuck == 0
    report = check_data_directory(world.data_dir)
    assert report.problems == []


@pytest.mark.parametrize("how", ["insert", "merged into one file", "no statistics"])
def test_an_owners_rows_where_records_are_to_come_stop_their_partition_alone(
    world: World, how: str
) -> None:
    topic, other = world.topic("theirs", 2), world.topic("other")
    compactor = world.compactor()

    def produce() -> None:
        for one, partition in ((topic, 0), (topic, 1), (other, 0)):
            world.produce(one, some(10), partition)
        world.flush(compactor)

    produce()
    owners = str(world.path(topic))
    if how == "no statistics":
        keep_none = {"delta.dataSkippingNumIndexedCols": "0"}
        deltalake.DeltaTable(owners).alter.set_table_properties(keep_none)
    deltalake.write_deltalake(owners, rows(0, [25, 27, 1000], "theirs"), mode="append")
    if how == "merged into one file":
        deltalake.DeltaTable(owners).optimize.compact()
    produce()  # up to 20: nothing is in the way yet
    assert len(world.rows(topic)) == 20 + 3
    produce()
    compactor.step()
    assert (len(world.rows(topic, 1)), len(world.rows(other))) == (30, 30)
    assert len(world.rows(topic)) == 20 + 3
    [problem] = compactor.status().problems
    assert "partition 0 has rows at offsets 25 to 27" in problem
    deltalake.DeltaTable(owners).delete("offset >= 20 AND partition = 0")
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    world.check_rows()
    assert compactor.status().problems == ()
