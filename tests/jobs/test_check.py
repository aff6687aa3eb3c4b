"""The check finds what it is there to find."""

import json
import shutil
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker.catalog import offsets
from broker.catalog.offsets import CommittedOffset
from broker.storage.directory import DataDirectory
from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs import check as check_module
from jobs.check import check_data_directory
from jobs.check_report import Report
from lakehouse.log.delta_log import entry_path, load
from lakehouse.log.proven_checkpoint import make_checkpoint
from tests.jobs.world import World
from tests.support.batches import Record
from tests.support.spelling import overwrite
from tests.support.tables import rows


@pytest.fixture
def topic(world: World) -> Any:
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v" * 50)] * 10)
        world.flush(compactor)
        world.roll()
    world.produce(topic, [Record(b"k", b"v" * 50)] * 10)
    return topic


def check(world: World) -> Report:
    return check_data_directory(world.data_dir)


def claim_elsewhere(data_dir: Path, away: Path) -> None:
    """A data directory whose tables lie elsewhere."""
    DataDirectory.claim(PosixFiles(), data_dir, "a test", away).close()


def problem(world: World) -> str:
    problems = check(world).problems
    assert problems
    return "; ".join(problems)


def data_files(world: World, topic: Any) -> list[Path]:
    return sorted(world.path(topic).glob("partition=0/*.parquet"))


def last_entry(world: World, topic: Any) -> Path:
    return max((world.path(topic) / "_delta_log").glob("*.json"))


def change_log(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_sound_directory_is_counted(world: World, topic: Any) -> None:
    report = check(world)
    assert report.ok
    assert report.counts | {"topics": 1, "partitions": 1, "tables": 1, "files": 2,
                            "commits": 3, "rows": 20, "batches": 3,
                            "segments": 3} == report.counts  # fmt: skip


def test_no_data_directory(tmp_path: Path) -> None:
    assert not check_data_directory(tmp_path / "nothing").ok


@pytest.mark.parametrize("there", ["nothing", "an empty place", "another's"])
def test_tables_on_a_disk_that_is_not_there_are_not_called_lost_or_whole(
    tmp_path: Path, there: str
) -> None:
    away, data_dir = tmp_path / "far" / "away", tmp_path / "data"
    claim_elsewhere(data_dir, away)
    world = World(data_dir)
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    assert check(world).ok
    for is_released in (False, True):
        if is_released:
            world.release()
        away.rename(away.with_name("unmounted"))
        if there == "an empty place":
            away.mkdir()
        if there == "another's":
            claim_elsewhere(tmp_path / "other", away)
        [sentence] = check(world).problems
        assert sentence.startswith("no table was verified: ")
        why = {"another's": "is the warehouse of another data directory"}
        assert why.get(there, "is its disk mounted?") in sentence
        if away.exists():
            shutil.rmtree(away)
        shutil.rmtree(tmp_path / "other", ignore_errors=True)
        away.with_name("unmounted").rename(away)
    assert check(world).ok
    world.close()


def test_a_disk_that_goes_while_tables_are_verified_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, data_dir, look = (
        tmp_path / "away",
        tmp_path / "data",
        check_module.check_table,
    )
    claim_elsewhere(data_dir, away)
    world = World(data_dir)
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)

    def last_look(*table: Any) -> Any:
        found = look(*table)
        away.rename(away.with_name("unmounted"))
        return found

    monkeypatch.setattr(check_module, "check_table", last_look)
    [sentence] = check(world).problems
    assert sentence.startswith("no table was verified: ")
    away.with_name("unmounted").rename(away)
    world.close()


def test_a_flipped_byte_in_a_segment(world: World, topic: Any) -> None:
    info = world.wal.segments()[0]
    with open(info.path, "r+b") as file:
        at = file.read().index(b"v" * 50)
        file.seek(at)
        file.write(b"w")
    assert "checksum" in problem(world)


def test_a_lost_segment(world: World, topic: Any) -> None:
    world.restart_log()
    world.wal.segments()[-1].path.unlink()
    assert "lost" in problem(world)


def test_records_that_are_nowhere(world: World, topic: Any) -> None:
    # The table as it was before its last commit, and the segments let go.
    last_entry(world, topic).unlink()
    for info in world.wal.segments()[:2]:
        info.path.unlink()
    assert "neither in the table nor in a segment" in problem(world)


def test_a_missing_file(world: World, topic: Any) -> None:
    data_files(world, topic)[0].unlink()
    assert "is missing" in problem(world)


def test_a_damaged_file(world: World, topic: Any) -> None:
    path = data_files(world, topic)[0]
    content = bytearray(path.read_bytes())
    content[40:90] = bytes(50)
    path.write_bytes(content)
    assert path.name in problem(world)


def test_a_file_with_other_rows(world: World, topic: Any) -> None:
    first, second = data_files(world, topic)
    shutil.copy(first, second)
    assert f"{second.name} is damaged" in problem(world)


def test_an_owners_file_with_other_rows(world: World, topic: Any) -> None:
    ours = data_files(world, topic)
    for offset in (5000, 5001):
        table = rows(0, [offset], "t")
        deltalake.write_deltalake(str(world.path(topic)), table, mode="append")
    first, second = [path for path in data_files(world, topic) if path not in ours]
    shutil.copy(first, second)
    found = problem(world)
    assert "outside its statistics" in found
    assert "twice" in found


def test_statistics_that_are_not_true(world: World, topic: Any) -> None:
    entry = last_entry(world, topic)
    change_log(entry, '\\"numRecords\\":10', '\\"numRecords\\":11')
    assert "rows, not 11" in problem(world)


def test_the_same_range_committed_twice(world: World, topic: Any) -> None:
    entry = last_entry(world, topic)
    again = entry.with_name(f"{int(entry.stem) + 1:020d}.json")
    shutil.copy(entry, again)
    assert "the table ended at 20" in problem(world)


def test_rows_at_or_above_the_end(world: World, topic: Any) -> None:
    entry = last_entry(world, topic)
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    for line in lines:
        if line.get("txn", {}).get("appId", "").endswith("/0"):
            line["txn"]["version"] = 15
    entry.write_text("\n".join(map(json.dumps, lines)))
    found = problem(world)
    assert "says that partition 0 ends at offset 15; it is taken to end at 10" in found
    assert "whose end is 10" in found


def test_an_owners_row_above_the_end_is_a_remark(world: World, topic: Any) -> None:
    path = str(world.path(topic))
    deltalake.write_deltalake(path, rows(0, [5000], "t"), mode="append")
    report = check(world)
    assert report.problems == []
    assert any("offset 5000 is in the table" in remark for remark in report.remarks)


def test_an_owners_row_of_no_partition_of_the_topic_is_a_remark(
    world: World, topic: Any
) -> None:
    path = str(world.path(topic))
    for partition in (None, -1, 7):
        some = rows(0, [5000], "t")
        column = pa.array([partition], some.schema.field("partition").type)
        at = some.schema.get_field_index("partition")
        some = some.set_column(at, "partition", column)
        deltalake.write_deltalake(path, some, mode="append")
    report = check(world)
    assert report.problems == []
    said = [one for one in report.remarks if "which the topic does not have" in one]
    start = "t: its owner's row at offset 5000 is of partition "
    assert sorted(one.removeprefix(start).split(",")[0] for one in said) == [
        "-1", "7", "null",
    ]  # fmt: skip


def test_an_offset_committed_beyond_the_end(world: World, topic: Any) -> None:
    def commit(offset: int) -> None:
        stored = {(topic.number, 0): CommittedOffset(offset)}
        world.catalog.change(lambda c: offsets.commit(c, "g", stored))

    commit(30)
    assert check(world).ok
    assert check(world).remarks == []
    commit(31)
    report = check(world)
    assert report.ok
    assert report.remarks == ["group 'g' has committed 31 of t-0, which ends at 30"]


def test_an_owners_rewrite_is_no_problem(world: World, topic: Any) -> None:
    import deltalake

    deltalake.DeltaTable(str(world.path(topic))).optimize.compact()
    table = deltalake.DeltaTable(str(world.path(topic)))
    assert pq.read_metadata(table.file_uris()[0].removeprefix("file://")).num_rows == 20
    report = check(world)
    assert report.problems == []
    table.delete("offset = 3")
    assert check(world).problems == []


@pytest.fixture
def released(world: World) -> Any:
    """A topic of 30 records, all in the table, none in a segment any more."""
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(3):
        world.produce(topic, [Record(b"k", b"v" * 50)] * 10)
        world.flush(compactor)
    world.release()
    report = check(world)
    assert report.ok
    assert report.counts["batches"] == 0
    return topic


def test_the_last_commit_is_gone_and_so_are_the_segments(
    world: World, released: Any
) -> None:
    last_entry(world, released).unlink()
    assert (
        problem(world)
        == "t-0: offsets 20 to 29 are neither in the table nor in a segment"
    )


def test_the_whole_table_is_gone(world: World, released: Any) -> None:
    shutil.rmtree(world.path(released))
    assert (
        problem(world)
        == "t-0: offsets 0 to 29 are neither in the table nor in a segment"
    )


def test_another_table_stands_in_its_place(world: World, released: Any) -> None:
    import deltalake
    import pyarrow as pa

    shutil.rmtree(world.path(released))
    rows = pa.table({"partition": pa.array([0], pa.int32())})
    deltalake.write_deltalake(str(world.path(released)), rows)
    assert "offsets 0 to 29 are neither" in problem(world)


def lose_rows(world: World, topic: Any, kept: int) -> None:
    """Rewrite the last commit's file with fewer rows, and make its entry agree."""
    entry = last_entry(world, topic)
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    (add,) = [line["add"] for line in lines if "add" in line]
    path = world.path(topic) / add["path"]
    pq.write_table(pq.ParquetFile(path).read().slice(0, kept), path)
    stats = json.loads(add["stats"])
    stats["numRecords"] = kept
    add |= {"size": path.stat().st_size, "stats": json.dumps(stats)}
    entry.write_text("\n".join(map(json.dumps, lines)))


def test_rows_missing_inside_a_committed_range(world: World, released: Any) -> None:
    lose_rows(world, released, 3)
    assert (
        problem(world)
        == "t-0: version 3 adds 3 rows, and the log had 10 records in 20 to 30"
    )


def test_an_old_commit_that_does_not_say_is_a_remark(
    world: World, released: Any
) -> None:
    lose_rows(world, released, 3)
    change_log(last_entry(world, released), '"lakelog.rows"', '"other"')
    report = check(world)
    assert report.ok
    assert report.remarks == [
        "t-0: version 3 adds 3 rows for 10 offsets, and is too old to say why"
    ]


def test_refused_batches_are_no_loss(world: World, topic: Any) -> None:
    world.produce(topic, [Record(b"k", b"v")] * 5, skip=7)
    world.flush(world.compactor())
    report = check(world)
    assert (report.problems, report.remarks) == ([], [])
    assert report.counts["offsets_without_record"] == 7


def test_a_refused_batch_between_the_table_and_the_segments_is_no_loss(
    world: World, released: Any
) -> None:
    world.produce(released, [Record(b"k", b"v")] * 5, skip=7)
    assert check(world).problems == []
    world.checkpoint()
    assert check(world).problems == []


def test_words_for_a_time_that_nobody_understands_are_a_remark(
    world: World, topic: Any
) -> None:
    table = load(str(world.path(topic)))
    assert table.metadata is not None
    said = {**table.configuration, "delta.deletedFileRetentionDuration": "a while"}
    body = {**table.metadata.body, "configuration": said}
    entry = Path(entry_path(table.path, table.version + 1))
    entry.write_text(json.dumps({"metaData": body}))
    report = check(world)
    assert (len(report.problems), len(report.remarks)) == (0, 1)
    assert "'a while'" in report.remarks[0]


def test_a_constraint_that_no_record_is_held_against_is_a_remark(
    world: World, topic: Any
) -> None:
    table = deltalake.DeltaTable(str(world.path(topic)))
    table.alter.add_constraint({"short": "offset < 22"})
    world.flush(world.compactor())
    assert len(world.rows(topic)) == 30, "some of them break it"
    report = check(world)
    assert report.problems == []
    [remark] = report.remarks
    assert remark.startswith("t: its CHECK constraints are held against no record")


def test_a_table_that_its_owner_made_unreadable_is_a_remark(
    world: World, topic: Any
) -> None:
    entry = last_entry(world, topic)
    action = {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["from2040"],
            "writerFeatures": ["from2040"],
        }
    }
    entry.with_name(f"{int(entry.stem) + 1:020d}.json").write_text(json.dumps(action))
    report = check(world)
    assert report.ok
    assert "from2040" in report.remarks[0]


def test_files_of_odd_partitions_are_a_remark_while_they_are_there(
    world: World, topic: Any
) -> None:
    """As a double makes them: 0.0 is no partition. RESTORE ends it."""
    ours = last_entry(world, topic)
    actions = [json.loads(line) for line in ours.read_text().splitlines()]
    [add] = [action["add"] for action in actions if "add" in action]
    odd = add | {"path": "odd", "partitionValues": {"partition": "0.0"}}
    for version, come, gone in ((3, odd, add), (4, add, odd)):
        text = [{"add": come}, {"remove": {"path": gone["path"], "dataChange": True}}]
        entry = ours.with_name(f"{version:020d}.json")
        entry.write_text("\n".join(map(json.dumps, text)))
        report = check(world)
        assert report.problems == []
        assert ["the partition of its file odd" in r for r in report.remarks] == (
            [True] if come is odd else []
        )


def test_a_table_that_lost_columns_of_ours_is_a_remark(
    world: World, topic: Any
) -> None:
    overwrite(str(world.path(topic)), ["key", "offset"])
    report = check(world)
    assert report.problems == []
    [remark] = report.remarks
    assert remark.startswith(
        "t: its table takes no commit: its column offset is called Offset, and key is "
        "called KEY: write it once more as it was, or RESTORE it"
    )


def test_records_that_are_nowhere_behind_a_segment_that_is_left(world: World) -> None:
    # The older segment stays for another topic; the one between was let go.
    topic, other, compactor = world.topic("t"), world.topic("o"), world.compactor()
    world.produce(other, [Record()])
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
        world.roll()
    world.produce(topic, [Record(b"k", b"v")] * 10, skip=2)
    world.checkpoint()
    world.wal.release(world.wal.segments()[1].sequence)
    world._drain(lambda: check(world).counts["segments"] == 2)
    assert check(world).ok
    last_entry(world, topic).unlink()
    assert "t-0: offsets 10 to 21 are neither" in problem(world)


def test_segments_that_are_carried_during_the_look_are_looked_at_again(
    world: World, topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.roll()
    opened = LocalSegmentStore.opened
    begun: list[int] = []

    def late(store: LocalSegmentStore, sequence: int) -> Any:
        begun.append(sequence)
        if len(begun) == 2:  # the first was read, the others go
            world.produce(topic, [Record(b"k", b"v" * 50)] * 10)
            world.carry({(topic.number, 0): 0})
            world.wait_for_recycler()
            for _ in range(20):  # their files are used again
                world.produce(topic, [Record(b"k", b"v" * 50)])
                world.roll()
        return opened(store, sequence)

    monkeypatch.setattr(LocalSegmentStore, "opened", late)
    report = check(world)
    assert report.problems == []
    assert len(begun) > 20
    assert report.counts["batches"] == 4 + 20
    assert "segments_released_meanwhile" not in report.counts


def test_an_entry_below_a_checkpoint_that_cannot_be_read(
    world: World, topic: Any
) -> None:
    path = str(world.path(topic))
    deltalake.DeltaTable(path).create_checkpoint()
    Path(entry_path(path, 1)).write_text("rubbish")
    [found] = check(world).problems
    assert "log entry 1 cannot be read" in found
    Path(entry_path(path, 2)).write_text('{"add":{}}')
    assert "log entry 2 cannot be read" in problem(world)


def test_a_checkpoint_that_is_not_as_it_was_written(world: World, topic: Any) -> None:
    """Also one that is not the newest: time travel begins there."""
    path = str(world.path(topic))
    for version in (1, 2):
        make_checkpoint(load(path), version)
    assert check(world).problems == []
    older = Path(path) / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    older.write_bytes(older.read_bytes() + b"x")
    assert f"{older.name} of its log cannot be read, is not as it was" in problem(world)


def test_whatever_stands_in_a_tables_log_is_told(world: World, topic: Any) -> None:
    entry = last_entry(world, topic)
    for text in ('{"add":{}}', "[" * 200_000):
        entry.with_name(f"{3:020d}.json").write_text(text)
        assert problem(world).startswith("t: ")


@pytest.mark.parametrize("lost", [True, False], ids=["missing", "damaged"])
def test_a_checkpoint_that_is_not_there_is_a_problem_and_no_fault(
    world: World, topic: Any, lost: bool
) -> None:
    """Which segments count nobody knows then."""
    world.checkpoint()
    path = world.data_dir / "wal" / "checkpoint"
    data = path.read_bytes()
    path.unlink()
    if not lost:
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    problems = check_data_directory(world.data_dir).problems
    assert any("checkpoint" in problem for problem in problems)
