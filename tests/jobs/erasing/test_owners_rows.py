"""Rows of an owner's that nobody asked about are in no erasure's way, and stay so."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.check import check_data_directory
from jobs.erasing import table
from jobs.erasing.table import NotErased
from lakehouse.log.actions import DataFile, parse_commit
from lakehouse.log.delta_log import entry_path, load
from tests.jobs.erasing.scene import PERSON, Scene, erase_killed, mark
from tests.jobs.world import World

INSERTED = "partition=0/part-00000-ins.c000.snappy.parquet"
NOWHERE = "partition=__HIVE_DEFAULT_PARTITION__"
OPTIMIZED = "partition=0/part-00000-optimized.c000.snappy.parquet"


def commit(scene: Scene, *actions: dict[str, Any]) -> None:
    entry = Path(entry_path(scene.root, load(scene.root).version + 1))
    entry.write_text("\n".join(map(json.dumps, actions)))


def row(scene: Scene, offset: int | None, key: bytes, **others: Any) -> pa.Table:
    """A row as one of the table's, but for what is said."""
    path = min(file.relative_path for file in load(scene.root).files.values())
    table = pq.read_table(Path(scene.root) / path, partitioning=None).slice(0, 1)
    for name, value in {"offset": offset, "key": key, **others}.items():
        at = table.schema.get_field_index(name)
        kind = table.schema.field(name).type
        table = table.set_column(at, name, pa.array([value], kind))
    return table.drop_columns([c for c in ("partition",) if c in table.column_names])


def insert(
    scene: Scene, path: str, rows: Sequence[pa.Table], *, old: str | None = None,
    partition: str | None = "0", has_stats: bool = True,
) -> None:  # fmt: skip
    """As an INSERT of an owner's; ``old``: with all that file's rows, in its place."""
    parts = [*rows]
    if old is not None:
        was = pq.read_table(Path(scene.root) / old, partitioning=None)
        parts.insert(0, was.drop_columns(["partition"]))
    table, place = pa.concat_tables(parts), Path(scene.root) / path
    place.parent.mkdir(exist_ok=True)
    pq.write_table(table, place)
    offsets = [o for o in table["offset"].to_pylist() if o is not None]
    bounds = {"minValues": {"offset": min(offsets)},
              "maxValues": {"offset": max(offsets)}} if offsets else {}  # fmt: skip
    stats = json.dumps({"numRecords": len(table), **bounds})
    add = {"path": path, "partitionValues": {"partition": partition},
           "size": place.stat().st_size, "modificationTime": 1, "dataChange": True,
           **({"stats": stats} if has_stats else {})}  # fmt: skip
    gone = {"path": old, "deletionTimestamp": 1, "dataChange": False}
    commit(scene, *([{"remove": gone}] if old else []), {"add": add})


def contents(scene: Scene) -> list[dict[str, Any]]:
    """All rows of the table, as a Delta reader has them."""
    found = scene.table.to_pyarrow_table().drop_columns(["topic", "headers"])
    return sorted(found.to_pylist(), key=repr)


@pytest.fixture
def scene(world: World) -> Scene:
    made = Scene(world)
    made.put([b"a", PERSON, b"b"])
    made.put([b"c", PERSON, b"d"])
    return made


def small(scene: Scene) -> str:
    files = load(scene.root).files.values()
    return max(files, key=lambda file: file.first_offset).relative_path


def check_erased(scene: Scene) -> None:
    """An erasure takes what a look says, and leaves all else as it was."""
    before = [one for one in contents(scene) if one["key"] != PERSON]
    known = check_data_directory(scene.world.data_dir).problems
    found = scene.look()
    scene.erase(found)
    assert contents(scene) == before
    assert not scene.look().live
    assert scene.left() == []
    assert check_data_directory(scene.world.data_dir).problems == known


ODD = {
    "an offset twice": {"offset": 3},
    "below 0": {"offset": -1},
    "no offset": {"offset": None},
    "no timestamp": {"offset": 9_999, "timestamp": None},
}


@pytest.mark.parametrize("what", ODD)
def test_a_row_that_nobody_asked_about_stays_as_it_is(scene: Scene, what: str) -> None:
    insert(scene, OPTIMIZED, [row(scene, key=b"own", **ODD[what])], old=small(scene))
    check_erased(scene)
    [odd] = [f for f in load(scene.root).files.values() if "/copied-" in f.path]
    offsets = [o for o in (3, 5, ODD[what]["offset"]) if o is not None]
    assert (odd.rows, odd.first_offset, odd.last_offset) == (
        3, min(offsets), max(offsets),
    )  # fmt: skip
    scene.erase(scene.look(b"d"))  # out of what an erasure wrote
    assert not scene.look(b"d").live
    scene.put([b"later"])
    keys = [one["key"] for one in contents(scene)]
    assert sorted(keys) == [b"a", b"b", b"c", b"later", b"own"]


def test_what_has_no_offset_at_all_may_be_all_that_stays(scene: Scene) -> None:
    rows = [row(scene, 9_999, PERSON), row(scene, None, b"own", timestamp=None)]
    insert(scene, INSERTED, rows)
    check_erased(scene)
    [odd] = [f for f in load(scene.root).files.values() if not f.is_bounded]
    assert (odd.rows, odd.timestamp_min_ms) == (1, -1)


def test_what_an_owner_has_in_no_partition_stays_there(scene: Scene) -> None:
    path = f"{NOWHERE}/part-00000-ins.c000.snappy.parquet"
    rows = [row(scene, 7, PERSON), row(scene, 8, b"keep"), row(scene, 9, b"too")]
    insert(scene, path, rows, partition=None)
    check_erased(scene)
    scene.erase(scene.look(b"too"))
    [kept] = [one for one in contents(scene) if one["partition"] is None]
    assert (kept["key"], kept["offset"]) == (b"keep", 8)
    assert {str(Path(one).parent) for one in scene.files()} == {"partition=0", NOWHERE}


@pytest.mark.parametrize("partition", [-1, -5, -(1 << 31)])
def test_a_negative_partition_is_another_than_none(
    scene: Scene, partition: int
) -> None:
    for where in (partition, None):
        directory = NOWHERE if where is None else f"partition={where}"
        rows = [row(scene, 7, PERSON), row(scene, 8, b"keep")]
        said = None if where is None else str(where)
        path = f"{directory}/part-00000-ins.c000.snappy.parquet"
        insert(scene, path, rows, partition=said)
    counts = dict.fromkeys({partition, -1}, 1) if partition != -1 else {-1: 2}
    assert scene.look(PERSON).rows == {0: 2, **counts}
    check_erased(scene)
    kept = [one for one in contents(scene) if one["key"] == b"keep"]
    assert {one["partition"] for one in kept} == {partition, None}
    assert len(kept) == 2
    places = {str(Path(one).parent) for one in scene.files()}
    assert places == {"partition=0", NOWHERE, f"partition={partition}"}


def widen(scene: Scene) -> None:
    """As an owner's ``overwriteSchema`` with ``partition`` as a long."""
    metadata = load(scene.root).metadata
    assert metadata is not None
    schema = json.loads(metadata.schema_string)
    [partition] = [one for one in schema["fields"] if one["name"] == "partition"]
    partition["type"] = "long"
    commit(scene, {"metaData": {**metadata.body, "schemaString": json.dumps(schema)}})


def test_a_partition_may_be_a_long(scene: Scene) -> None:
    widen(scene)
    for partition in (1 << 32, 12_345_678_901):
        path = f"partition={partition}/part-00000-ins.c000.snappy.parquet"
        rows = [row(scene, 7, PERSON), row(scene, 8, b"keep")]
        insert(scene, path, rows, partition=str(partition))
    check_erased(scene)
    kept = [one["partition"] for one in contents(scene) if one["key"] == b"keep"]
    assert sorted(kept) == [1 << 32, 12_345_678_901]


def test_an_erasure_in_no_partition_counts_as_versions_before_had_it(
    scene: Scene,
) -> None:
    rows = [row(scene, 7, PERSON), row(scene, 8, b"keep")]
    insert(scene, f"{NOWHERE}/part-00000-ins.c000.snappy.parquet", rows, partition=None)
    check_erased(scene)
    version = load(scene.root).version
    erased = [
        parse_commit(at, Path(entry_path(scene.root, at)).read_bytes())
        for at in range(version + 1)
    ]
    assert [one.erased for one in erased if -1 in one.erased] == [{-1: (1, 1, 1)}]
    assert all(one.miscounted is None for one in erased)


def test_a_file_without_statistics_is_in_no_erasures_way(scene: Scene) -> None:
    insert(scene, OPTIMIZED, [], old=small(scene), has_stats=False)
    assert any(file.rows < 0 for file in load(scene.root).files.values())
    check_erased(scene)


def test_what_fails_names_the_file_that_it_failed_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, write = small(scene), table.without

    def fail(root: str, file: DataFile, *others: Any, **more: Any) -> Any:
        if file.relative_path == failing:
            raise ValueError("it cannot be")
        return write(root, file, *others, **more)

    monkeypatch.setattr(table, "without", fail)
    with pytest.raises(NotErased, match=f"^{re.escape(failing)}: it cannot be"):
        scene.erase()


@pytest.mark.parametrize("others", [[], [PERSON]])
def test_a_row_without_an_offset_that_its_owner_deleted_leaves_as_others_do(
    scene: Scene, others: list[bytes]
) -> None:
    rows = [row(scene, None, PERSON), row(scene, 9, b"keep")]
    rows += [row(scene, 10 + n, key) for n, key in enumerate(others)]
    insert(scene, INSERTED, rows)
    with pytest.raises(
        NotErased, match=r"has 1 such rows without an offset, .* delete"
    ):
        scene.look()
    mark(scene, INSERTED, [0])
    scene.erase()
    assert scene.shown == [(0, b"a"), (2, b"b"), (3, b"c"), (5, b"d"), (9, b"keep")]
    assert (scene.left(), scene.look().marked) == ([], [])


@pytest.mark.parametrize("point", ["erase.after_file", "erase.after_commit"])
def test_who_is_killed_beside_such_rows_is_finished_by_the_next(
    scene: Scene, point: str
) -> None:
    insert(scene, OPTIMIZED, [row(scene, None, b"own")], old=small(scene))
    expected = [one for one in contents(scene) if one["key"] != PERSON]
    erase_killed(scene, point)
    scene.erase()
    assert contents(scene) == expected
    assert (scene.left(), scene.look().past) == ([], [])
