"""A file in which its owner has an offset twice loses no row that is another's."""

import json
from collections.abc import Sequence
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.erasing.rewrite import without
from jobs.erasing.table import NotErased
from jobs.merging.order import NotMergeable
from lakehouse.log.delta_log import entry_path, load
from lakehouse.owners_columns import all_columns
from tests.jobs.erasing.scene import PERSON, Scene, erase_killed, mark
from tests.jobs.world import World
from tests.support.traces import traces

Row = tuple[int, bytes]
OPTIMIZED = "partition=0/part-00000-optimized.c000.snappy.parquet"
OLD, NEW, A, B = (0, b"old"), (0, b"new"), (1, b"a"), (2, b"b")
OTHER, WAS = (2, PERSON), (0, PERSON)


def optimized(scene: Scene, rows: Sequence[Row], marked: Sequence[int]) -> None:
    """As an OPTIMIZE that leaves the table with one file of these rows, and a DELETE
    that marks some by number."""
    [file] = load(scene.root).files.values()
    was = pq.read_table(Path(scene.root) / file.path, partitioning=None)
    parts = []
    for offset, key in rows:
        row = was.slice(offset, 1)
        at = row.schema.get_field_index("key")
        parts.append(row.set_column(at, "key", pa.array([key], pa.binary())))
    pq.write_table(pa.concat_tables(parts), Path(scene.root) / OPTIMIZED)
    commit(scene, file.path, [offset for offset, _ in rows])
    if marked:
        mark(scene, OPTIMIZED, list(marked))


def commit(scene: Scene, old: str, offsets: list[int]) -> None:
    stats = {"numRecords": len(offsets), "minValues": {"offset": min(offsets)},
             "maxValues": {"offset": max(offsets)}}  # fmt: skip
    size = (Path(scene.root) / OPTIMIZED).stat().st_size
    actions = [
        {"remove": {"path": old, "deletionTimestamp": 1, "dataChange": False}},
        {"add": {"path": OPTIMIZED, "partitionValues": {"partition": "0"},
                 "size": size, "modificationTime": 1, "dataChange": False,
                 "stats": json.dumps(stats)}},
    ]  # fmt: skip
    entry = Path(entry_path(scene.root, load(scene.root).version + 1))
    entry.write_text("\n".join(map(json.dumps, actions)))


def named(scene: Scene) -> list[str]:
    """The files with the person's key. (What takes its place has its value.)"""
    return list(traces(Path(scene.root), [PERSON]))


HISTORIES = {
    "another row leaves": ([b"x", b"a", PERSON], [OLD, NEW, A, OTHER], [0], [NEW, A]),
    "in no order": ([b"x", b"a", PERSON], [A, OTHER, NEW, OLD], [3], [NEW, A]),
    "only marked": ([PERSON, b"a", b"b"], [OLD, NEW, A, B], [0], [NEW, A, B]),
    "both marked": ([PERSON, b"a", b"b"], [WAS, OLD, A, B], [0, 1], [A, B]),
}


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("point", ["erase.after_file", "erase.after_commit", None])
def test_what_is_marked_leaves_by_its_number(
    world: World, history: str, point: str | None
) -> None:
    scene = Scene(world)
    keys, rows, marked, expected = HISTORIES[history]
    scene.put(keys)
    optimized(scene, rows, marked)
    if point is not None:
        erase_killed(scene, point)
    scene.erase()
    assert scene.shown == expected
    assert (named(scene), scene.look().live) == ([], [])


@pytest.mark.parametrize(
    ("rows", "marked"),
    [
        ([WAS, NEW, A, B], [0]),
        ([OLD, WAS, A, B], [0]),
        ([WAS, NEW, A], []),
        ([WAS, A, B, NEW], []),
    ],
)
def test_what_cannot_be_told_from_another_row_stops_it_before_anything_is_changed(
    world: World, rows: list[Row], marked: list[int]
) -> None:
    scene = Scene(world)
    scene.put([b"x", b"a", b"b"])
    optimized(scene, rows, marked)
    files, version = scene.files(), load(scene.root).version
    with pytest.raises(NotErased, match=r"offset 0 is there twice, .* let him delete"):
        scene.erase()
    assert (scene.files(), load(scene.root).version) == (files, version)
    assert scene.shown == sorted(rows)


@pytest.mark.parametrize("is_optimized", [False, True])
def test_a_row_that_its_owner_inserted_for_another_stays(
    world: World, *, is_optimized: bool
) -> None:
    scene = Scene(world)
    scene.put([PERSON, b"a", b"b"])
    row = scene.table.to_pyarrow_table().sort_by("offset").slice(0, 1)
    for name, value in (("key", b"new"), ("timestampType", 1)):
        field = row.schema.field(name)
        at = row.schema.get_field_index(name)
        row = row.set_column(at, field, pa.array([value], field.type))
    deltalake.write_deltalake(scene.root, row, mode="append")
    if is_optimized:
        scene.table.optimize.compact()
        with pytest.raises(NotErased, match="offset 0 is there twice"):
            scene.erase()
        scene.table.delete("offset = 0 AND timestampType = 0")
    scene.erase()
    assert (named(scene), scene.shown) == ([], [NEW, A, B])


def test_a_file_that_has_an_offset_twice_is_not_written_without_it(
    world: World,
) -> None:
    scene = Scene(world)
    scene.put([b"x", b"a", b"b"])
    optimized(scene, [WAS, NEW, A], [])
    table = load(scene.root)
    assert table.metadata is not None
    columns, files = all_columns(table.metadata.schema_string), scene.files()
    [file] = table.files.values()
    with pytest.raises(NotMergeable, match="offset 0 is there twice"):
        without(
            scene.root, file, np.array([0]), columns,
            attempt="1-2-e0", spill=str(world.data_dir),
        )  # fmt: skip
    assert scene.files() == files
