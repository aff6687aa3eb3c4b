"""Which checkpoints may go, and which stay, since only they tell the state."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakehouse.log import library
from lakehouse.log.actions import UNKNOWN_MAX, UNKNOWN_MIN, Protocol
from lakehouse.log.checkpoint_repair import (
    difference,
    is_known,
    prove_checkpoint,
    stash_checkpoint,
    unstash,
)
from lakehouse.log.delta_log import LOG_DIRECTORY, entry_path, follow, load, table_ends
from lakehouse.log.proven_checkpoint import make_checkpoint
from lakehouse.properties import TRANSACTIONS_EXPIRE
from tests.support.tables import TOPIC_ID, Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    """A table of four rounds with a checkpoint of its owner's, and one round more."""
    writer = Writer(str(tmp_path))
    for n in range(4):
        writer.add(0, n * 10, n * 10 + 10)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    writer.add(0, 40, 50)
    return writer


def place(writer: Writer, version: int = 4) -> Path:
    name = f"{version:020d}.checkpoint.parquet"
    return Path(writer.path) / LOG_DIRECTORY / name


def lock(writer: Writer) -> None:
    """Of its checkpoint goes what only the library reads."""
    table = pq.ParquetFile(place(writer)).read()
    metadata = table.column("metaData").combine_chunks()
    left = [field.name for field in metadata.type if field.name != "format"]
    thinner = pa.StructArray.from_arrays(
        [pc.struct_field(metadata, name) for name in left],
        names=left,
        mask=metadata.is_null(),
    )
    at = table.column_names.index("metaData")
    pq.write_table(table.set_column(at, "metaData", thinner), place(writer))


def thin(writer: Writer) -> None:
    """Its checkpoint lacks a file, and can be read."""
    table = pq.ParquetFile(place(writer)).read()
    paths = pc.struct_field(table.column("add").combine_chunks(), "path")
    kept = pc.or_kleene(pc.is_null(paths), pc.not_equal(paths, paths.drop_null()[1]))
    pq.write_table(table.filter(pc.fill_null(kept, True)), place(writer))


def test_what_tells_the_same_is_known_from_now_on(writer: Writer) -> None:
    assert prove_checkpoint(load(writer.path)) is None
    assert is_known(load(writer.path))
    assert prove_checkpoint(load(writer.path)) is None


def test_what_the_library_does_not_read_goes_where_the_entries_tell_the_same(
    writer: Writer,
) -> None:
    before = load(writer.path)
    lock(writer)
    found = load(writer.path)
    assert (found.files, found.damaged, found.checkpoint) == (before.files, (), 4)
    assert not library.opens(writer.path)
    why = prove_checkpoint(found)
    assert why is not None
    assert place(writer).name in why
    assert library.opens(writer.path)
    assert load(writer.path).files == before.files


@pytest.mark.parametrize("is_followed", [True, False])
def test_what_tells_another_state_goes(writer: Writer, is_followed: bool) -> None:
    before = load(writer.path)
    before.checkpoint = -1  # it came later
    thin(writer)
    found = load(writer.path)
    assert found.files != before.files
    why = prove_checkpoint(before if is_followed else found)
    assert why is not None
    assert "the entries tell otherwise: which files there are" in why
    assert load(writer.path).files == before.files


@pytest.mark.parametrize("behind", [0, 1, 3])
def test_what_tells_a_lower_end_goes_however_much_stands_behind_it(
    writer: Writer, behind: int
) -> None:
    """A round behind it looks like a claim: it begins where the table did not end."""
    for n in range(5, 5 + behind):
        writer.add(0, n * 10, n * 10 + 10)
    table = pq.ParquetFile(place(writer)).read()
    said = table.column("txn").to_pylist()
    for one in said:
        if one and one["appId"].endswith("/0"):
            one["version"] = 10
    at = table.schema.get_field_index("txn")
    lower = pa.array(said, table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), lower), place(writer))
    assert table_ends(load(writer.path)) == {0: 10}
    why = prove_checkpoint(load(writer.path))
    assert why is not None
    assert "the entries tell otherwise: where partitions end" in why
    assert table_ends(load(writer.path)) == {0: 50 + behind * 10}


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize("is_ours", [True, False])
def test_one_that_has_an_end_from_an_entry_that_expired_is_not_wrong(
    writer: Writer, partition: int, *, is_ours: bool
) -> None:
    """Somebody claimed an end, of a partition that gets no records: each checkpoint
    from then on has it, and once his entry is gone it looks like any other. Without
    the claim a table would get none for as long as it is followed."""
    followed = load(writer.path)
    txn = {"appId": f"{TOPIC_ID}/{partition}", "version": 1000}
    Path(entry_path(writer.path, 6)).write_text(json.dumps({"txn": txn}))
    follow(followed)
    assert followed.claims == {txn["appId"]: 1000}
    make_checkpoint(followed, 6)
    deltalake.DeltaTable(writer.path).alter.set_table_properties(
        {"x": "1"}, raise_if_not_exists=False
    )
    for version in range(7):
        os.unlink(entry_path(writer.path, version))
    follow(followed)
    if is_ours:
        assert make_checkpoint(followed, 7) is None
    else:
        deltalake.DeltaTable(writer.path).create_checkpoint()
        assert prove_checkpoint(followed) is None
    assert is_known(followed)
    assert table_ends(followed) == {0: 50}


@pytest.mark.parametrize("spoil", [lock, thin])
def test_it_stays_where_nothing_else_tells_the_state(
    writer: Writer, spoil: Callable[[Writer], None]
) -> None:
    before = load(writer.path)
    before.checkpoint = -1
    spoil(writer)
    os.unlink(entry_path(writer.path, 0))
    assert prove_checkpoint(load(writer.path)) is None
    assert prove_checkpoint(before) is None
    assert place(writer).exists()
    assert not is_known(load(writer.path))


def test_one_of_a_kind_that_is_new_to_us_stays(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load(writer.path)
    before.checkpoint = -1
    place(writer).write_bytes(b"PAR2")
    monkeypatch.setattr(library, "why_closed", lambda path: None)
    assert prove_checkpoint(before) is None
    assert place(writer).exists()


def test_one_that_forgets_the_ends_as_its_owner_wants_it_stays(writer: Writer) -> None:
    found = load(writer.path)
    assert found.metadata is not None
    found.metadata.configuration[TRANSACTIONS_EXPIRE] = "interval 1 day"  # type: ignore[index]
    thin(writer)
    assert prove_checkpoint(found) is None
    assert place(writer).exists()


def test_what_is_locked_by_something_else_is_put_back(writer: Writer) -> None:
    """An entry, say, that asks of a reader what the library has not."""
    entry = Path(entry_path(writer.path, 5))
    later = {"readerFeatures": ["later"], "writerFeatures": ["later"]}
    asked = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **later}}
    entry.write_text(entry.read_text() + json.dumps(asked) + "\n")
    assert not library.opens(writer.path)
    assert prove_checkpoint(load(writer.path)) is None
    assert place(writer).exists()
    assert (place(writer).parent / "_last_checkpoint").exists()


def test_what_sidecars_say_is_not_measured(writer: Writer) -> None:
    (place(writer).parent / "_sidecars").mkdir()
    assert prove_checkpoint(load(writer.path)) is None
    assert not is_known(load(writer.path))


def test_what_was_put_aside_comes_back_as_it_was(writer: Writer) -> None:
    before, names = load(writer.path), set(os.listdir(place(writer).parent))
    moved = stash_checkpoint(before, 4)
    assert moved == [place(writer).name, "_last_checkpoint"]
    assert load(writer.path).checkpoint == -1
    unstash(writer.path, moved)
    assert set(os.listdir(place(writer).parent)) == names
    assert stash_checkpoint(before, 3) == []


def behind_another(writer: Writer) -> None:
    """Its checkpoint is not the newest: its owner made one more, of version 5."""
    deltalake.DeltaTable(writer.path).create_checkpoint()
    writer.add(0, 50, 60)


def rows_at(writer: Writer, version: int) -> int:
    table = deltalake.DeltaTable(writer.path, version=version)
    return table.to_pyarrow_table().num_rows


def test_one_that_alone_tells_older_versions_stays_behind_a_newer_one(
    writer: Writer,
) -> None:
    behind_another(writer)
    for version in range(4):
        os.unlink(entry_path(writer.path, version))
    assert stash_checkpoint(load(writer.path), 4) == []
    assert rows_at(writer, 4) == 40


def test_one_that_tells_otherwise_than_entries_stays_behind_a_newer_one(
    writer: Writer,
) -> None:
    """The newer one does not say which of them is wrong."""
    thin(writer)
    behind_another(writer)
    assert stash_checkpoint(load(writer.path), 4) == []


@pytest.mark.parametrize("is_readable", [True, False])
def test_one_goes_from_behind_a_newer_one_where_entries_tell_its_version(
    writer: Writer, is_readable: bool
) -> None:
    behind_another(writer)
    if not is_readable:
        place(writer).write_bytes(b"")
    assert place(writer).name in stash_checkpoint(load(writer.path), 4)
    assert rows_at(writer, 4) == 40


def test_only_what_was_proven_is_known(writer: Writer) -> None:
    assert not is_known(load(writer.path))
    make_checkpoint(load(writer.path), 5)
    assert is_known(load(writer.path))


def test_states_differ_by_all_that_counts(writer: Writer) -> None:
    known = load(writer.path)
    metadata = known.metadata
    assert metadata is not None
    spaced = replace(metadata, schema_string=metadata.schema_string + " ")
    files = known.files.items()
    assert difference(replace(known, metadata=spaced), known) is None
    for told, what in (
        ({"version": 4}, "the version"),
        ({"files": {}}, "which files there are"),
        ({"files": {path: file._replace(size=1) for path, file in files}}, "the file"),
        ({"files": {path: file._replace(rows=1) for path, file in files}}, "the file"),
        ({"transactions": {}}, "where partitions end"),
        ({"protocol": Protocol(1, 7)}, "the protocol"),
        ({"metadata": None}, "the metadata"),
        ({"metadata": replace(metadata, configuration={})}, "the metadata"),
    ):
        found = difference(replace(known, **told), known)
        assert (found or "").startswith(what)


def test_no_statistics_at_all_are_an_owners_choice(writer: Writer) -> None:
    known = load(writer.path)
    wide = {
        path: file._replace(first_offset=UNKNOWN_MIN, last_offset=UNKNOWN_MAX)
        for path, file in known.files.items()
    }
    assert difference(replace(known, files=wide), known) is None
    one = dict(list(wide.items())[:1])
    found = difference(replace(known, files=known.files | one), known)
    assert found == f"the file {next(iter(one))}"
