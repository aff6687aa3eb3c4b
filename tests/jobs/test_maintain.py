"""What expired leaves by a commit and goes later; orphans go; the owner's stay."""

import json
import os
import time
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from broker.catalog import topics as catalog_topics
from jobs.rows import Failed, FileTask, Written
from lakehouse import tables
from lakehouse.in_flight import AHEAD_MS, begin
from lakehouse.log.delta_log import entry_path, load
from tests.jobs.world import (
    DELAY,
    FLUSH_MS,
    WEEK,
    World,
    alter_configs,
    aside,
    delete,
    here,
    later,
    start_at,
)
from tests.support.batches import Record
from tests.support.cloned_back import clone_back

DAY = 86_400_000
YEAR_S = 365 * 86_400


def files_of(world: World, topic: Any) -> set[Path]:
    return set(world.path(topic).glob("partition=*/*.parquet"))


def named(world: World, topic: Any) -> set[Path]:
    table = deltalake.DeltaTable(str(world.path(topic)))
    return {Path(uri.removeprefix("file://")) for uri in table.file_uris()}


def test_files_wholly_below_the_start_leave_then_go(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(3):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
    start_at(world, topic, 15)
    later(world, compactor, 30_000)
    assert [record.offset for record in world.rows(topic)] == list(range(10, 30))
    assert len(files_of(world, topic)) == 3
    later(world, compactor, WEEK - 1)
    assert len(files_of(world, topic)) == 3
    before = deltalake.DeltaTable(str(world.path(topic)), version=3)
    assert before.to_pyarrow_table().num_rows == 30
    later(world, compactor)
    assert files_of(world, topic) == named(world, topic)
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    assert [record.offset for record in world.rows(topic)] == list(range(10, 40))


def test_a_row_of_its_owners_below_offset_0_stays_and_holds_up_no_others(
    world: World,
) -> None:
    topic = world.topic("t", partitions=2)
    compactor = world.compactor()
    for partition in (0, 1):
        world.produce(topic, [Record(b"k", b"v")] * 3, partition)
        world.flush(compactor)
    table = deltalake.DeltaTable(str(world.path(topic)))
    row = table.to_pyarrow_table(filters=[("partition", "=", 1)]).slice(0, 1)
    at = row.schema.get_field_index("offset")
    theirs = row.set_column(at, "offset", pa.array([-5], pa.int64()))
    deltalake.write_deltalake(table, theirs, mode="append")
    start_at(world, topic, 3)
    later(world, compactor)
    assert world.rows(topic, 0) == []
    assert [row.offset for row in world.rows(topic, 1)] == [-5, 0, 1, 2]


def test_orphans_go_when_they_are_old_and_nothing_else_does(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    [kept] = files_of(world, topic)
    orphan = kept.with_name(f"{0:020d}-{10:020d}-dead-1.parquet")
    young = kept.with_name(f"{0:020d}-{10:020d}-dead-2.parquet")
    theirs = kept.with_name("part-00000-spark.parquet")
    for path in (orphan, young, theirs):
        path.write_bytes(b"x")
    now_s = world.clock.now_ms() / 1000
    for path in (orphan, theirs, kept):
        os.utime(path, (now_s, now_s))
    os.utime(young, (now_s + 30 + AHEAD_MS / 1_000,) * 2)
    later(world, world.compactor())  # one that has not looked yet
    assert files_of(world, topic) == {kept, young, theirs}
    world.check_rows()


def test_an_orphan_stays_while_the_table_names_a_file_of_its_offsets_that_is_gone(
    world: World,
) -> None:
    """The commit that put it in that file's place was lost with its log entry, and a
    VACUUM had deleted what it replaced: nothing else has these records."""
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
    gone, kept = sorted(files_of(world, topic))
    gone.unlink()
    merged = kept.with_name(f"{0:020d}-{20:020d}-a-b-c-1.parquet")
    copy = kept.with_name(f"{10:020d}-{20:020d}-dead-1.parquet")
    now_s = world.clock.now_ms() / 1000
    for path in (merged, copy):
        path.write_bytes(b"x")
        os.utime(path, (now_s, now_s))
    for delay_ms in (DELAY, WEEK):
        later(world, world.compactor(), delay_ms)
        assert files_of(world, topic) == {kept, merged}


def orphan_of(world: World, topic: Any, first: int, end: int) -> Path:
    """An old one of partition 0."""
    path = world.path(topic) / "partition=0" / f"{first:020d}-{end:020d}-dead-1.parquet"
    path.write_bytes(b"x")
    os.utime(path, (world.clock.now_ms() / 1000,) * 2)
    return path


@pytest.mark.parametrize(
    ("first", "end", "stays"),
    [
        (10, 11, True),
        (19, 20, True),
        (15, 35, True),
        (0, 10, False),
        (20, 30, False),
        (25, 35, False),
        (30, 40, False),
    ],
)
def test_an_orphan_stays_for_what_is_gone_of_its_own_offsets_alone(
    world: World, first: int, end: int, *, stays: bool
) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(3):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
    _, gone, _ = sorted(files_of(world, topic))  # offsets 10 to 19
    gone.unlink()
    orphan = orphan_of(world, topic, first, end)
    compactor = world.compactor()
    compactor._maintenance._in_log = lambda key, start, end: start >= 30
    later(world, compactor)
    assert orphan.exists() is stays


def test_an_orphan_goes_whatever_is_gone_of_another_partition(world: World) -> None:
    topic, compactor = world.topic("t", partitions=2), world.compactor()
    for partition in (0, 1):
        world.produce(topic, [Record(b"k", b"v")] * 10, partition)
        world.flush(compactor)
    [gone] = world.path(topic).glob("partition=1/*.parquet")
    gone.unlink()
    orphan = orphan_of(world, topic, 0, 10)
    later(world, world.compactor())
    assert not orphan.exists()


def test_an_orphan_above_the_end_goes_whatever_is_gone_of_its_owners_there(
    world: World,
) -> None:
    """The segments have its records."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    table = deltalake.DeltaTable(str(world.path(topic)))
    row = table.to_pyarrow_table().slice(0, 1)
    at = row.schema.get_field_index("offset")
    theirs = row.set_column(at, "offset", pa.array([15], pa.int64()))
    deltalake.write_deltalake(table, theirs, mode="append")
    [gone] = [path for path in files_of(world, topic) if "part-" in path.name]
    gone.unlink()
    orphan = orphan_of(world, topic, 10, 20)
    compactor = world.compactor()
    compactor._maintenance._in_log = lambda key, start, end: start >= 10
    later(world, compactor)
    assert not orphan.exists()


def test_what_a_killed_worker_had_begun_goes_and_what_is_written_stays(
    world: World,
) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    [kept] = files_of(world, topic)
    names = [f"{0:020d}-{10:020d}-dead-1.parquet", f"{0:020d}-{10:020d}-now-2.parquet"]
    begun, written = (Path(begin(str(kept.with_name(name)))) for name in names)
    now_s = world.clock.now_ms() / 1000
    for path in (begun, written):
        path.write_bytes(b"x")
        os.utime(path, (now_s, now_s))
    compactor = world.compactor()
    compactor._maintenance._writing = lambda: "-now-2"
    later(world, compactor)
    assert list(written.parent.iterdir()) == [written]
    assert files_of(world, topic) == {kept}
    world.check_rows()


def test_what_a_killed_worker_had_just_begun_goes_as_soon_as_it_is_old(
    world: World,
) -> None:
    """Not when all files are looked at again, an hour later: it may be large."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    [kept] = files_of(world, topic)
    begun = Path(begin(str(kept.with_name(f"{0:020d}-{10:020d}-dead-1.parquet"))))
    begun.write_bytes(b"x")
    now_s = world.clock.now_ms() / 1000
    os.utime(begun, (now_s, now_s))
    compactor = world.compactor()
    later(world, compactor, DELAY // 2)
    assert begun.exists(), "its worker may be at it"
    later(world, compactor)
    assert not begun.exists()


def test_what_was_begun_by_a_clock_that_is_ahead_goes_some_time_after_it_was_seen(
    world: World,
) -> None:
    """But not while it is written, which its time of change tells."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    [kept] = files_of(world, topic)
    begun = Path(begin(str(kept.with_name(f"{0:020d}-{10:020d}-dead-1.parquet"))))
    begun.write_bytes(b"x")
    ahead_s = world.clock.now_ms() / 1000 + YEAR_S
    compactor = world.compactor()
    for changed_s in (ahead_s, ahead_s + 1):
        os.utime(begun, (changed_s, changed_s))
        for _ in range(2):
            later(world, compactor, DELAY // 3)
            assert begun.exists(), "its worker may be at it"
    later(world, compactor)
    assert not begun.exists()
    assert files_of(world, topic) == {kept}


def orphan_in(world: World, topic: Any, name: str) -> Path:
    """A file that no commit names, of records that are in the table."""
    path = world.path(topic) / "partition=0" / f"{0:020d}-{10:020d}-{name}.parquet"
    path.write_bytes(b"x")
    now_s = world.clock.now_ms() / 1000
    os.utime(path, (now_s, now_s))
    return path


def test_a_table_is_looked_through_after_a_round_that_failed_and_not_each_time(
    world: World,
) -> None:
    fails = [False]

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        if fails[0]:
            raise OSError("the round is lost")
        return here(tasks)

    topic, compactor = world.topic("t"), world.compactor(spread)
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    young = orphan_in(world, topic, "dead-1")
    later(world, compactor, DELAY // 2)
    unknown = orphan_in(world, topic, "dead-2")
    later(world, compactor, DELAY)
    assert not young.exists()  # that was left by the look that found it
    later(world, compactor, 2 * DELAY)
    assert unknown.exists()  # nobody looked
    fails[0] = True
    world.produce(topic, [Record(b"k", b"v")] * 10)
    compactor.step()
    world.clock.advance(FLUSH_MS)
    with pytest.raises(OSError, match="the round is lost"):
        compactor.step()
    fails[0] = False
    later(world, compactor)
    assert not unknown.exists()
    world.flush(compactor)
    world.check_rows()


def test_what_its_owners_vacuum_took_first_is_no_trouble(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    start_at(world, topic, 10)
    later(world, compactor)
    for path in files_of(world, topic):
        path.unlink()
    later(world, compactor, WEEK)
    [table] = compactor._tables.present([topic])
    assert not table.snapshot.removed


def test_what_its_owner_rewrote_stays_for_his_time_travel(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
    before = files_of(world, topic)
    deltalake.DeltaTable(str(world.path(topic))).optimize.compact()
    later(world, compactor, 10 * DELAY)
    later(world, compactor, 10 * DELAY)
    assert before < files_of(world, topic)
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    world.check_rows()


@pytest.mark.parametrize("way", ["its own", "a link", "before it was moved"])
def test_what_came_back_by_where_it_lies_stays(world: World, way: str) -> None:
    """Its owner's clone, put back, names it otherwise than his DELETE did."""
    topic = world.topic("t", configs={"lake.retention.ms": "-1"})
    compactor = world.compactor()
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
    (world.data_dir / "too").symlink_to("tables")
    places = {"a link": "too/t", "before it was moved": "moved/t"}
    place = world.data_dir / places.get(way, "tables/t")
    clone_back(str(world.path(topic)), str(place), when_ms=world.clock.now_ms())
    start_at(world, topic, 20)
    before = files_of(world, topic)
    for ms in (DELAY, WEEK, DELAY):
        later(world, compactor, ms)
    assert files_of(world, topic) == before


@pytest.mark.parametrize("is_forgotten", [True, False])
def test_what_came_back_by_where_it_lies_goes_when_it_expires(
    world: World, *, is_forgotten: bool
) -> None:
    """Whether or not the log still tells that it had left by another name before."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    [before] = load(str(world.path(topic))).files
    clone_back(str(world.path(topic)))
    later(world, compactor)
    if is_forgotten:
        [table] = compactor._tables.present([topic])
        del table.snapshot.removed[before]
    start_at(world, topic, 10)
    later(world, compactor)
    for ms, count in ((WEEK - 1, 1), (DELAY, 0)):
        later(world, compactor, ms)
        assert len(files_of(world, topic)) == count


def test_what_its_owner_rewrote_stays_when_the_log_forgets_it(world: World) -> None:
    """Checkpoints drop what was removed long ago; a new process then knows nothing."""
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
    before = files_of(world, topic)
    owners = deltalake.DeltaTable(str(world.path(topic)))
    owners.alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 1 milliseconds"}
    )
    owners.optimize.compact()
    time.sleep(0.002)
    deltalake.DeltaTable(str(world.path(topic))).create_checkpoint()
    assert not load(str(world.path(topic))).removed
    world.clock.wall_ms = time.time_ns() // 1_000_000
    later(world, world.compactor(), 10 * DELAY)
    assert before < files_of(world, topic)
    start_at(world, topic, 20)
    compactor = world.compactor()
    later(world, compactor, 10 * DELAY)
    assert before < files_of(world, topic)  # nobody knows for how long they are dead
    later(world, compactor, DELAY)
    assert not before & files_of(world, topic)


@pytest.mark.parametrize(
    ("said", "lake_ms", "stays_ms"),
    [
        ("60 days", DELAY, 60 * DAY),
        ("interval 7 days", 30 * DAY, 30 * DAY),
        ("interval 7 days", DELAY, WEEK),
    ],
)
def test_what_left_before_the_log_forgot_it_stays_as_long_again(
    world: World, said: str, lake_ms: int, stays_ms: int
) -> None:
    """As old as its records are, it may have left yesterday: a new process knows no
    more than that it is there."""
    topic = world.topic("t")
    compactor = world.compactor(file_delete_delay_ms=lake_ms)
    world.clock.wall_ms = time.time_ns() // 1_000_000 - 100 * DAY
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
    old_s = world.clock.now_ms() / 1000
    for path in files_of(world, topic):
        os.utime(path, (old_s, old_s))
    owners = deltalake.DeltaTable(str(world.path(topic)))
    owners.alter.set_table_properties({"delta.deletedFileRetentionDuration": said})
    world.clock.advance(90 * DAY)
    start_at(world, topic, 10)
    later(world, compactor)
    deltalake.DeltaTable(str(world.path(topic))).create_checkpoint()
    assert not load(str(world.path(topic))).removed
    compactor = world.compactor(file_delete_delay_ms=lake_ms)
    for ms in (DELAY, stays_ms - 1):
        later(world, compactor, ms)
        assert len(files_of(world, topic)) == 2
    before = deltalake.DeltaTable(str(world.path(topic)), version=2)
    assert before.to_pyarrow_table().num_rows == 20
    later(world, compactor)
    assert len(files_of(world, topic)) == 1


@pytest.mark.parametrize(
    ("said", "ago"),
    [("60 days", 9), ("interval 1 hours 60 days", 3), ("\tinterval 1 hours 8 days", 3)],
)
def test_a_young_file_of_which_a_checkpoint_forgot_that_it_left_is_no_orphan(
    world: World, said: str, ago: int
) -> None:
    """deltalake takes '60 days' for a week, and of several units the first: and its
    checkpoints drop what left then."""
    topic, compactor = world.topic("t"), world.compactor()
    world.clock.wall_ms = time.time_ns() // 1_000_000 - (ago + 1) * DAY
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
    written_s = world.clock.now_ms() / 1000
    for path in files_of(world, topic):
        os.utime(path, (written_s, written_s))
    owners = deltalake.DeltaTable(str(world.path(topic)))
    owners.alter.set_table_properties({"delta.deletedFileRetentionDuration": said})
    start_at(world, topic, 10)
    later(world, compactor)
    world.clock.advance(ago * DAY)
    deltalake.DeltaTable(str(world.path(topic))).create_checkpoint()
    compactor = world.compactor()
    for _ in range(3):
        later(world, compactor)
    assert len(files_of(world, topic)) == 2


RETENTION = "delta.deletedFileRetentionDuration"


def say(world: World, topic: Any, said: str, key: str = RETENTION) -> None:
    """Its owner says how long what left his table stays, or something else of it."""
    table = load(str(world.path(topic)))
    assert table.metadata is not None
    body = {**table.metadata.body, "configuration": table.configuration | {key: said}}
    entry = Path(entry_path(table.path, table.version + 1))
    entry.write_text(json.dumps({"metaData": body}))


@pytest.mark.parametrize(
    ("said", "is_clear"),
    [
        ("interval +60 days", True),
        ("interval 60 days 0 microseconds", True),
        ("interval 5184000.0 seconds", True),
        ("interval '60' day", False),
        ("interval 2 months", False),
    ],
)
def test_what_left_stays_as_long_as_delta_takes_its_owners_words_for(
    world: World, said: str, is_clear: bool
) -> None:
    """And for ever where it takes them for nothing, which is logged once."""
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
    say(world, topic, said)
    start_at(world, topic, 10)
    with capture_logs() as logs:
        later(world, compactor)
        for ms in (WEEK, 60 * DAY - WEEK - 1):
            later(world, compactor, ms)
            assert len(files_of(world, topic)) == 2
        later(world, compactor)
    assert len(files_of(world, topic)) == (1 if is_clear else 2)
    whys = [line["why"] for line in logs if line["event"] == "a remark on a table"]
    assert len(whys) == (0 if is_clear else 1)
    assert all(repr(said) in why for why in whys)


def test_where_its_owner_speaks_clearly_again_what_left_goes(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
    say(world, topic, "a while")
    start_at(world, topic, 10)
    for _ in range(2):
        later(world, compactor, 10 * WEEK)
    assert len(files_of(world, topic)) == 2
    say(world, topic, "interval 7 days")
    later(world, compactor)
    assert len(files_of(world, topic)) == 1


def test_that_an_owner_says_nothing_clear_is_logged_whenever_he_begins_to(
    world: World,
) -> None:
    """And forgotten with his topic."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")])
    world.flush(compactor)
    with capture_logs() as logs:
        for said in ("a while", "interval 7 days", "a while"):
            say(world, topic, said)
            later(world, compactor)
            later(world, compactor)
    assert [line["event"] for line in logs].count("a remark on a table") == 2
    delete(world, topic)
    later(world, compactor)
    assert compactor._maintenance._remarks == {}


@pytest.mark.parametrize("yes", ["true", "TRUE", "True"])
def test_of_a_table_that_is_append_only_no_row_leaves_and_the_rest_goes_on(
    world: World, yes: str
) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    say(world, topic, yes, "delta.appendOnly")
    start_at(world, topic, 10)
    with capture_logs() as logs:
        for _ in range(3):
            later(world, compactor, WEEK)
    assert [line["event"] for line in logs].count("not maintained") == 0
    whys = [line["why"] for line in logs if line["event"] == "a remark on a table"]
    assert [f"delta.appendOnly is {yes}" in why for why in whys] == [True]
    world.produce(topic, [Record(b"k", b"v")] * 5)
    world.flush(compactor)
    assert [record.offset for record in world.rows(topic)] == list(range(15))
    assert compactor.status().problems == ()
    say(world, topic, "false", "delta.appendOnly")
    later(world, compactor)
    assert [record.offset for record in world.rows(topic)] == list(range(10, 15))


def test_what_was_deleted_is_remembered_no_longer(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    for end in range(10, 60, 10):
        world.produce(topic, [Record(b"k", b"v")] * 10)
        world.flush(compactor)
        start_at(world, topic, end)
        later(world, compactor)
        later(world, compactor, WEEK)
    assert not files_of(world, topic)
    [table] = compactor._tables.present([topic])
    assert not table.snapshot.removed


def test_an_owners_delete_moves_no_end(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    deltalake.DeltaTable(str(world.path(topic))).delete()
    world.produce(topic, [Record(b"k", b"v")] * 5)
    world.flush(compactor)
    assert [record.offset for record in world.rows(topic)] == list(range(10, 15))


def keep(world: World, topic: Any, **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    alter_configs(world, topic, named)


def test_rows_stay_where_the_table_is_to_keep_them_before_the_log_is_trimmed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the compactor knows of the second, and not yet of the first."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    look, looks = compactor._topics.look, []

    def looked() -> Any:
        found = look()
        if not looks:
            keep(world, topic, lake_retention_ms="-1")
            start_at(world, topic, 10)
        looks.append(found)
        return found

    monkeypatch.setattr(compactor._topics, "look", looked)
    later(world, compactor, WEEK)
    assert len(world.rows(topic)) == 10


def test_rows_stay_for_as_long_as_the_topics_table_keeps_them(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    newest_ms = world.clock.now_ms() - 1_000
    for _ in range(2):
        stamped = [Record(b"k", b"v", (), newest_ms)] * 10
        world.produce(topic, stamped)
        world.flush(compactor)
    keep(world, topic, lake_retention_ms="-1")
    start_at(world, topic, 15)
    later(world, compactor, 10 * WEEK)
    assert len(world.rows(topic)) == 20
    keep(world, topic, lake_retention_ms=str(11 * WEEK))
    later(world, compactor)
    assert len(world.rows(topic)) == 20
    later(world, compactor, WEEK)
    assert [record.offset for record in world.rows(topic)] == list(range(10, 20))


def test_rows_that_consumers_can_read_stay_however_short_the_table_keeps(
    world: World,
) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    keep(world, topic, lake_retention_ms="0")
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    start_at(world, topic, 9)
    later(world, compactor, WEEK)
    assert len(world.rows(topic)) == 10
    start_at(world, topic, 10)
    later(world, compactor)
    assert world.rows(topic) == []


def test_a_record_without_a_timestamp_is_as_old_as_its_file(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v", (), -1)] * 10)
    world.flush(compactor)
    [file] = load(str(world.path(topic))).files.values()
    written_ms = file.modified_ms
    keep(world, topic, lake_retention_ms=str(WEEK))
    start_at(world, topic, 10)
    world.clock.wall_ms = written_ms + WEEK - DELAY
    later(world, compactor)
    assert len(world.rows(topic)) == 10
    later(world, compactor)
    assert world.rows(topic) == []


def test_with_little_space_on_the_disk_nothing_old_is_kept(world: World) -> None:
    short = [False]
    topic, other = world.topic("t"), world.topic("other")
    compactor = world.compactor()
    compactor._maintenance._is_short = lambda name: short[0]
    for one in (topic, other):
        world.produce(one, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    start_at(world, topic, 10)
    delete(world, other)
    later(world, compactor)
    later(world, compactor)
    assert len(files_of(world, topic)) == 1
    assert len(aside(world)) == 1
    short[0] = True
    later(world, compactor)
    assert not files_of(world, topic)
    assert not aside(world)


def test_a_deleted_topics_table_moves_aside_and_goes_after_a_week(world: World) -> None:
    topic, compactor = world.topic("T"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    delete(world, topic)
    later(world, compactor, DELAY - 1)
    assert world.path(topic).exists()
    later(world, compactor)
    assert not world.path(topic).exists()
    [kept] = aside(world)
    assert kept.name == f".deleted-{topic.id.hex()}-~t"
    assert deltalake.DeltaTable(str(kept)).to_pyarrow_table().num_rows == 10
    later(world, world.compactor(), WEEK - 2 * DELAY)
    assert aside(world) == [kept]
    later(world, compactor, 2 * DELAY)
    assert aside(world) == []
    assert world.catalog.read(catalog_topics.list_deleted) == []


def test_a_deleted_topic_whose_log_nobody_understands_holds_up_nobody(
    world: World,
) -> None:
    """It ended the compactor, at each start anew."""
    topic, other, compactor = world.topic("t"), world.topic("u"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    path, odd = str(world.path(topic)), f"{topic.id.hex()}/{'9' * 5000}"
    entry = json.dumps({"txn": {"appId": odd, "version": 1}})
    Path(entry_path(path, load(path).version + 1)).write_text(entry)
    world.catalog.change(
        lambda c: catalog_topics.delete(c, topic.number, world.clock.now_ms())
    )
    later(world, compactor, DELAY)
    world.produce(other, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    assert len(world.rows(other)) == 10
    assert world.path(topic).exists()


def test_a_topic_created_again_meanwhile_has_its_own_and_the_old_one_stays(
    world: World,
) -> None:
    compactor = world.compactor()
    for count in (1, 2, 3):
        topic = world.topic("t")
        world.produce(topic, [Record(b"k", b"v")] * count)
        world.flush(compactor)
        assert len(world.rows(topic)) == count
        delete(world, topic)
    later(world, compactor)
    kept = {deltalake.DeltaTable(str(one)).to_pyarrow_table().num_rows
            for one in aside(world)}  # fmt: skip
    assert (len(aside(world)), kept) == (3, {1, 2, 3})
    later(world, compactor, WEEK)
    assert aside(world) == []


def test_the_table_of_a_topic_that_lives_is_not_loaded_for_one_that_was_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    delete(world, topic)
    later(world, compactor)
    again = world.topic("t")
    world.produce(again, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    loads = []

    def count(path: str, **more: Any) -> Any:
        loads.append(path)
        return load(path, **more)

    monkeypatch.setattr(tables, "load", count)
    later(world, compactor)
    later(world, compactor)
    assert loads == []
    assert len(aside(world)) == 1
