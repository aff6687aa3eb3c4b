"""Checkpoints of both kinds give the state that the entries gave."""

import os
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import LogDamaged
from lakehouse.log import checkpoint
from lakehouse.log.checkpoint import SIDECARS, complete_checkpoints, read_checkpoint
from lakehouse.log.delta_log import LOG_DIRECTORY, Snapshot, entry_path, load
from tests.support.spelling import overwrite
from tests.support.tables import Writer
from tests.support.v2_checkpoint import UUID, as_v2


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(str(tmp_path))
    for n in range(4):
        made.add(n % 2, n // 2 * 10, n // 2 * 10 + 10)
    deltalake.DeltaTable(made.path).delete("offset >= 5 AND offset < 8")
    return made


def same(one: Snapshot, other: Snapshot) -> bool:
    return (one.version, one.files, one.transactions, one.configuration) == (
        other.version, other.files, other.transactions, other.configuration,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_v2_checkpoint_gives_the_same_state(writer: Writer, kind: str) -> None:
    before = load(writer.path)
    as_v2(writer, kind)
    assert same(load(writer.path), before)
    assert len(before.files) == 4


def test_a_v2_checkpoint_without_its_sidecars_is_damage(writer: Writer) -> None:
    path = as_v2(writer, "json")
    path.write_text(path.read_text().replace("part-0", "../part-0"))
    with pytest.raises(LogDamaged, match="names the sidecar"):
        load(writer.path)
    path.write_text("{}{")
    with pytest.raises(LogDamaged):
        load(writer.path)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_v2_checkpoint_of_which_a_sidecar_is_missing_is_passed_over(
    writer: Writer, kind: str
) -> None:
    """A power cut took it: nobody syncs them."""
    before = load(writer.path)
    entries = {
        path: path.read_bytes()
        for path in Path(writer.path, LOG_DIRECTORY).glob("*.json")
    }
    path = as_v2(writer, kind)
    (path.parent / SIDECARS / "part-0.parquet").unlink()
    with pytest.raises(LogDamaged, match=r"sidecar part-0\.parquet is missing"):
        load(writer.path)
    for entry, text in entries.items():
        entry.write_bytes(text)
    found = load(writer.path)
    assert same(found, before)
    assert found.damaged == (path.name,)


def test_a_v2_checkpoint_that_goes_with_its_sidecars_was_cleaned_away(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_v2(writer, "json")

    def vanish(place: str) -> None:
        path.unlink()
        os.unlink(place)
        raise FileNotFoundError(place)

    monkeypatch.setattr(checkpoint, "check_file", vanish)
    with pytest.raises(FileNotFoundError):
        read_checkpoint(str(path.parent), int(path.name[:20]), [path.name], {})


def test_a_checkpoint_counts_when_all_its_parts_are_there() -> None:
    parts = [f"{7:020d}.checkpoint.{n:010d}.{2:010d}.parquet" for n in (1, 2)]
    v2 = f"{9:020d}.checkpoint.{UUID}.json"
    assert complete_checkpoints([*parts, v2, "x"]) == [(9, [v2]), (7, parts)]
    assert complete_checkpoints(parts[:1]) == []


@pytest.mark.parametrize("is_otherwise", [False, True])
def test_statistics_that_an_owner_wants_as_columns_are_read(
    writer: Writer, is_otherwise: bool
) -> None:
    """Without them no file ever expires, and each read looks at every file."""
    if is_otherwise:
        wanted = {"delta.dataSkippingStatsColumns": "Offset,TIMESTAMP"}
        deltalake.DeltaTable(writer.path).alter.set_table_properties(wanted)
        overwrite(writer.path)
    owners = deltalake.DeltaTable(writer.path)
    owners.alter.set_table_properties(
        {
            "delta.checkpoint.writeStatsAsStruct": "true",
            "delta.checkpoint.writeStatsAsJson": "false",
        }
    )
    told = load(writer.path)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    for version in range(told.version + 1):
        os.unlink(entry_path(writer.path, version))
    assert all(file.is_bounded for file in told.files.values())
    assert same(load(writer.path), told)


@pytest.mark.parametrize("missing", ["size", "path"])
def test_a_checkpoint_that_says_too_little_is_passed_over(
    writer: Writer, missing: str
) -> None:
    before = load(writer.path)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    path = max(Path(writer.path, "_delta_log").glob("*.checkpoint.parquet"))
    table = pq.read_table(path)
    adds = table.column("add").combine_chunks()
    names = [field.name for field in adds.type if field.name != missing]
    kept = pa.StructArray.from_arrays(
        [pc.struct_field(adds, name) for name in names], names, mask=adds.is_null()
    )
    at = table.schema.get_field_index("add")
    pq.write_table(table.set_column(at, "add", kept), path)
    with pytest.raises(ValueError, match="cannot be read"):
        read_checkpoint(str(path.parent), before.version, [path.name], {})
    assert same(load(writer.path), before)
