"""Reading the Delta log without a library, held against the library."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import deltalake
import pytest

from lakehouse.errors import LogDamaged, TableMissing
from lakehouse.intervals import FOR_EVER_MS
from lakehouse.log.actions import UNKNOWN_MAX, data_file, parse_commit
from lakehouse.log.checkpoint import HINT
from lakehouse.log.checkpoint_repair import repair_checkpoint
from lakehouse.log.commit import commit_files
from lakehouse.log.delta_log import (
    LOG_DIRECTORY,
    entry_path,
    entry_versions,
    exists,
    follow,
    is_gone,
    load,
    load_version,
    oldest_version,
    table_ends,
    untrue,
)
from lakehouse.tables import drop, repair
from tests.support.cloned_back import clone_back
from tests.support.tables import TOPIC_ID, Writer, rows, write_file


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def owners_year(writer: Writer) -> None:
    """Everything an owner is allowed to do."""
    for n in range(4):
        writer.add(0, n * 10, n * 10 + 10)
        writer.add(1, n * 10, n * 10 + 10)
    table = deltalake.DeltaTable(writer.path)
    table.optimize.compact()
    table.delete("offset >= 5 AND offset < 8 AND partition = 0")
    table.create_checkpoint()
    writer.add(0, 40, 50)
    deltalake.DeltaTable(writer.path).delete("partition = 1")


def assert_agrees(writer: Writer) -> None:
    snapshot, table = load(writer.path), deltalake.DeltaTable(writer.path)
    assert snapshot.version == table.version()
    uris = {os.path.join(writer.path, f.relative_path) for f in snapshot.files.values()}
    assert uris == set(table.file_uris())
    for partition, end in table_ends(snapshot).items():
        assert table.transaction_version(f"{TOPIC_ID}/{partition}") == end
    assert sum(f.rows for f in snapshot.files.values()) == table.count()


@pytest.mark.parametrize(
    ("said", "damaged"),
    [
        ('"add"', '"ade"'),
        ('"partitionValues"', '"partityonValues"'),
        ('"partition":"0"', '"partition":"8"'),
        ('\\"numRecords\\":10', '\\"numRecords\\":00'),
        ('\\"offset\\":19', '\\"offset\\":11'),
        ('\\"offset\\":10', '\\"offset\\":90'),
    ],
)
def test_an_entry_with_another_letter_is_told(
    writer: Writer, said: str, damaged: str
) -> None:
    """Rows of it are passed over, and nothing else tells."""
    counted(writer, 0, 10)
    followed = load(writer.path)
    counted(writer, 10, 20)
    assert untrue(load(writer.path), TOPIC_ID) is None
    entry = Path(entry_path(writer.path, 2))
    text = entry.read_text()
    assert said in text
    entry.write_text(text.replace(said, damaged, 1).replace(":00,", ":0,"))
    follow(followed)
    for snapshot in (followed, load(writer.path)):
        assert "log entry 2 is damaged" in (untrue(snapshot, TOPIC_ID) or "")


def counted(writer: Writer, first: int, end: int) -> None:
    """A round that says how many records the log held, as the compactor's do."""
    writer.round += 1
    name = f"{writer.round:04d}-{first}-{end}"
    file = write_file(writer.path, name, rows(0, range(first, end)))
    commit_files(
        writer.path, TOPIC_ID, writer.round, {0: (first, end)}, [file],
        records={0: end - first},
    )  # fmt: skip


def test_the_library_sees_the_same(writer: Writer) -> None:
    owners_year(writer)
    assert_agrees(writer)


def test_an_entry_that_was_read_and_is_gone_or_another_is_noticed(
    writer: Writer,
) -> None:
    snapshot = load(writer.path)
    entry = Path(entry_path(writer.path, snapshot.version))
    assert not is_gone(writer.path, snapshot.version, snapshot.mark)
    text = entry.read_bytes()
    entry.unlink()
    assert is_gone(writer.path, snapshot.version, snapshot.mark)
    entry.write_bytes(text + b" ")
    assert is_gone(writer.path, snapshot.version, snapshot.mark)
    assert not is_gone(writer.path, snapshot.version, None)


def test_following_comes_to_the_same_as_loading(writer: Writer) -> None:
    snapshot = load(writer.path)
    owners_year(writer)
    commits = follow(snapshot)
    assert [c.version for c in commits] == list(range(1, snapshot.version + 1))
    assert follow(snapshot) == []
    fresh = load(writer.path)
    assert snapshot.files == fresh.files
    assert snapshot.transactions == fresh.transactions
    assert snapshot.removed.items() >= fresh.removed.items()


def test_a_version_that_is_past_is_what_the_library_makes_of_it(
    writer: Writer,
) -> None:
    owners_year(writer)
    newest = deltalake.DeltaTable(writer.path).version()
    assert entry_versions(writer.path) == list(range(newest + 1))
    for version in range(newest + 1):
        snapshot = load_version(writer.path, version)
        table = deltalake.DeltaTable(writer.path, version=version)
        assert snapshot.version == version
        assert sum(f.rows for f in snapshot.files.values()) == table.count()
    with pytest.raises(TableMissing, match=f"no version {newest + 1}"):
        load_version(writer.path, newest + 1)


def test_a_log_reaches_back_to_its_oldest_checkpoint_once_entries_are_gone(
    writer: Writer,
) -> None:
    assert oldest_version(writer.path) == 0
    writer.add(0, 0, 5)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    writer.add(0, 5, 9)
    Path(entry_path(writer.path, 0)).unlink()
    assert oldest_version(writer.path) == 1
    assert table_ends(load_version(writer.path, 1)) == {0: 5}
    assert table_ends(load_version(writer.path, 2)) == {0: 9}
    with pytest.raises(TableMissing, match="no version 0"):
        load_version(writer.path, 0)
    assert oldest_version(writer.path + "/nowhere") is None


def test_a_version_behind_a_torn_entry_cannot_be_read(writer: Writer) -> None:
    writer.add(0, 0, 5)
    entry = Path(entry_path(writer.path, 1))
    entry.write_bytes(entry.read_bytes()[:-20])
    assert load_version(writer.path, 0).version == 0
    with pytest.raises(LogDamaged, match="torn"):
        load_version(writer.path, 1)


def test_ranges_of_a_commit_are_read_back(writer: Writer) -> None:
    writer.add(1, 3, 9)
    commit = parse_commit(1, Path(entry_path(writer.path, 1)).read_bytes())
    assert commit.ranges == {1: (3, 9)}


def test_a_checkpoint_alone_is_enough(writer: Writer) -> None:
    owners_year(writer)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    newest = load(writer.path).version
    before = load(writer.path)
    for version in range(newest):
        os.unlink(entry_path(writer.path, version))
    after = load(writer.path)
    assert (after.version, after.files) == (newest, before.files)
    assert table_ends(after) == {0: 50, 1: 40}
    assert after.configuration == before.configuration


def test_a_damaged_checkpoint_is_passed_over(writer: Writer) -> None:
    owners_year(writer)
    log = Path(writer.path, "_delta_log")
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    before = load(writer.path).files
    checkpoint.write_bytes(b"")
    assert load(writer.path).files == before
    os.unlink(entry_path(writer.path, 0))
    with pytest.raises(LogDamaged):
        load(writer.path)


def test_what_the_library_reads_of_a_checkpoint_is_left_where_it_is(
    writer: Writer,
) -> None:
    owners_year(writer)
    (checkpoint,) = Path(writer.path, "_delta_log").glob("*.checkpoint.parquet")
    snapshot = load(writer.path)
    assert snapshot.damaged == ()
    snapshot.damaged = (checkpoint.name,)  # as if it were of a kind to come
    assert repair_checkpoint(snapshot) is None
    assert checkpoint.exists()
    checkpoint.write_bytes(b"")
    why = repair_checkpoint(load(writer.path))
    assert why is not None
    assert checkpoint.name in why
    assert repair_checkpoint(load(writer.path)) is None
    assert_agrees(writer)


def test_what_the_log_names_by_where_it_lies_is_known_by_its_path_in_the_table(
    writer: Writer,
) -> None:
    writer.add(0, 0, 10)
    followed = load(writer.path)
    (known,) = followed.files
    (name,) = clone_back(writer.path)
    remove = {"path": name, "deletionTimestamp": 5, "dataChange": True}
    follow(followed)
    for snapshot in (followed, load(writer.path)):
        assert snapshot.files[name].relative_path == known
        assert [*snapshot.files] == [name]
        assert snapshot.left == {known: 1}
    entry = Path(entry_path(writer.path, followed.version + 1))
    entry.write_text(json.dumps({"remove": remove}))
    follow(followed)
    assert followed.removed == {known: 1, name: 5}
    assert followed.left == {known: 5}


def test_a_hole_is_damage(writer: Writer) -> None:
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    os.unlink(entry_path(writer.path, 2))
    with pytest.raises(LogDamaged, match="is missing"):
        load(writer.path)


@pytest.mark.parametrize("content", [b"", b"\n", b'{"add":{"pa', b"[]", b"\0" * 90])
def test_a_torn_last_entry_is_not_read(writer: Writer, content: bytes) -> None:
    writer.add(0, 0, 10)
    Path(entry_path(writer.path, 2)).write_bytes(content)
    snapshot = load(writer.path)
    assert snapshot.version == 1
    assert snapshot.torn is not None
    assert repair(writer.path) is not None
    assert load(writer.path).torn is None
    writer.add(0, 10, 20)
    assert_agrees(writer)


@pytest.mark.parametrize(
    "action",
    [
        {"add": {"path": "f", "size": 1, "stats": "no JSON"}},
        {"add": {"path": "no size"}},
        {"txn": {"appId": "his", "version": None}},
        {"commitInfo": [1]},
        {"txn": {"appId": "his", "version": float("inf")}},
    ],
    ids=["stats", "size", "txn", "info", "infinity"],
)
def test_a_whole_entry_that_nobody_understands_is_its_owners(
    writer: Writer, action: dict[str, object]
) -> None:
    """It was taken for a torn one and moved away: his commit was undone."""
    writer.add(0, 0, 10)
    followed, entry = load(writer.path), Path(entry_path(writer.path, 2))
    entry.write_text(json.dumps(action))
    for look in (follow, lambda _: load(writer.path), lambda _: repair(writer.path)):
        with pytest.raises(LogDamaged, match="cannot be understood"):
            look(followed)
    assert followed.version == 1
    assert entry.exists()
    entry.unlink()
    assert follow(followed) == []
    writer.add(0, 10, 20)
    assert_agrees(writer)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_an_entrys_place_is_damage_and_not_waited_for(
    writer: Writer, make: Callable[[str], None]
) -> None:
    writer.add(0, 0, 10)
    followed = load(writer.path)
    make(entry_path(writer.path, 2))
    for read in (lambda: follow(followed), lambda: load(writer.path)):
        with pytest.raises(LogDamaged, match=r"2\.json is no file but"):
            read()
    os.rename(entry_path(writer.path, 2), entry_path(writer.path, 3))
    with pytest.raises(LogDamaged):
        load(writer.path)
    assert follow(followed) == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_a_checkpoints_place_is_passed_over(
    writer: Writer, make: Callable[[str], None]
) -> None:
    writer.add(0, 0, 10)
    log = Path(writer.path, "_delta_log")
    deltalake.DeltaTable(writer.path).create_checkpoint()
    [checkpoint] = log.glob("*.checkpoint.parquet")
    for path in (checkpoint, log / "_last_checkpoint"):
        path.unlink()
        make(str(path))
    snapshot = load(writer.path)
    assert (snapshot.version, snapshot.checkpoint) == (1, -1)
    assert checkpoint.name in snapshot.damaged


def test_a_torn_first_entry_is_no_table(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    Path(entry_path(writer.path, 0)).write_bytes(b"")
    with pytest.raises(TableMissing):
        load(writer.path)
    Writer(str(tmp_path)).add(0, 0, 10)
    assert_agrees(writer)


def test_nothing_is_no_table(tmp_path: Path) -> None:
    assert not exists(str(tmp_path))
    with pytest.raises(TableMissing):
        load(str(tmp_path))


def test_the_table_of_a_deleted_topic_is_set_aside_and_dropped(tmp_path: Path) -> None:
    old = Writer(str(tmp_path), topic_id="f" * 32)
    old.add(0, 0, 10)
    new = Writer(str(tmp_path))
    assert table_ends(load(new.path)) == {}
    assert drop(str(tmp_path), "orders", "f" * 32)
    assert not drop(str(tmp_path), "orders", "f" * 32)
    assert exists(new.path)
    assert drop(str(tmp_path), "orders", TOPIC_ID)
    assert os.listdir(tmp_path) == []


def an_add(**more: object) -> dict[str, object]:
    body: dict[str, object] = {
        "path": "partition=0/a%20b.parquet",
        "partitionValues": {"partition": "0"},
        "size": 5,
        "modificationTime": 1,
        "dataChange": True,
    }
    return body | more


def test_a_file_without_statistics_reaches_everywhere() -> None:
    file = data_file(an_add())
    assert not file.is_bounded
    assert (file.last_offset, file.timestamp_max_ms) == (UNKNOWN_MAX, UNKNOWN_MAX)
    assert file.relative_path == "partition=0/a b.parquet"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.000+01:00", 1_700_000_000_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("+12345-01-01T00:00:00Z", UNKNOWN_MAX),
    ],
)
def test_timestamps_of_statistics(text: str, ms: int) -> None:
    bounds = {"offset": 1, "timestamp": text}
    stats = json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds})
    assert data_file(an_add(stats=stats)).timestamp_max_ms == ms


def with_features(writer: Writer, *features: str, **changes: object) -> str | None:
    """Why the table is unreadable after its owner turned these features on."""
    text = Path(entry_path(writer.path, 0)).read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    metadata = next(a["metaData"] for a in actions if "metaData" in a) | changes
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": list(features),
        "writerFeatures": ["inCommitTimestamp", "rowTracking", *features],
    }
    version = load(writer.path).version + 1
    lines = [json.dumps({"protocol": protocol}), json.dumps({"metaData": metadata})]
    Path(entry_path(writer.path, version)).write_text("\n".join(lines) + "\n")
    return load(writer.path).unreadable


def mapped(writer: Writer, **names: str) -> dict[str, object]:
    """The metadata of a table with mapped columns; logical -> physical names."""
    text = Path(entry_path(writer.path, 0)).read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    metadata = next(a["metaData"] for a in actions if "metaData" in a)
    schema = json.loads(metadata["schemaString"])
    for field in schema["fields"]:
        physical = names.get(field["name"], field["name"])
        field["metadata"] = {"delta.columnMapping.physicalName": physical}
    configuration = metadata["configuration"] | {"delta.columnMapping.mode": "name"}
    return {"schemaString": json.dumps(schema), "configuration": configuration}


def test_features_that_our_columns_do_not_feel_are_read(writer: Writer) -> None:
    writer.add(0, 0, 10)
    assert with_features(writer, "v2Checkpoint", "variantType", "typeWidening") is None
    assert with_features(writer, "columnMapping", **mapped(writer)) is None
    why = with_features(writer, "columnMapping", **mapped(writer, value="col-1"))
    assert why == "its columns are mapped by name: value"
    assert with_features(writer, "somethingNew") == (
        "it needs the reader features somethingNew"
    )


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("interval 7 days", 7 * 86_400_000),
        ("INTERVAL 1 day 2 Hours", 86_400_000 + 7_200_000),
        ("interval 1 hours 60 days", 3_600_000),  # deltalake reads no further
        ("60 days", 7 * 86_400_000),  # deltalake's checkpoints take it for that
        ("30 minutes", 1_800_000),
        ("interval 1 month", 0),
        ("interval", 0),
        ("interval days", 0),
        ("interval -1 days", 0),
    ],
)
def test_for_how_long_the_log_tells_what_left(
    writer: Writer, text: str, ms: int
) -> None:
    snapshot = load(writer.path)
    assert snapshot.deleted_file_retention_ms == 7 * 86_400_000
    assert snapshot.metadata is not None
    changed = {**snapshot.configuration, "delta.deletedFileRetentionDuration": text}
    snapshot.metadata = replace(snapshot.metadata, configuration=changed)
    assert snapshot.deleted_file_retention_ms == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("interval +60 days", 60 * 86_400_000),
        ("interval 0 days", 0),
        ("interval '60' day", FOR_EVER_MS),
        ("interval 2 months", FOR_EVER_MS),
    ],
)
def test_for_how_long_what_left_stays(writer: Writer, text: str, ms: int) -> None:
    snapshot = load(writer.path)
    assert (snapshot.time_travel_ms, snapshot.unclear) == (7 * 86_400_000, None)
    assert snapshot.metadata is not None
    changed = {**snapshot.configuration, "delta.deletedFileRetentionDuration": text}
    snapshot.metadata = replace(snapshot.metadata, configuration=changed)
    assert snapshot.time_travel_ms == ms
    assert (repr(text) in (snapshot.unclear or "")) == (ms == FOR_EVER_MS)


def test_a_hint_to_a_checkpoint_that_is_not_there_is_damage(tmp_path: Path) -> None:
    """The library does not open such a table."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    hint = Path(writer.path, LOG_DIRECTORY, HINT)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    assert HINT not in load(writer.path).damaged
    hint.write_text('{"version":0,"size":3}')
    assert HINT in load(writer.path).damaged
