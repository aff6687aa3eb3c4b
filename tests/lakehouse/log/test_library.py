"""What is left to the library: odd tables' commits, and checkpoints."""

import os
from pathlib import Path

import deltalake
import pytest
from deltalake.exceptions import DeltaError

from lakehouse.errors import CommitRefused, TableMissing
from lakehouse.log import library
from lakehouse.log.delta_log import LOG_DIRECTORY, load
from lakehouse.log.entry import Removal, Removals, Round
from tests.support.bitmaps import inline
from tests.support.syscalls import SystemCalls
from tests.support.tables import TOPIC_ID, Writer, rows, write_file


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def test_a_round_is_committed_at_the_version_that_was_read(writer: Writer) -> None:
    file = write_file(writer.path, "some", rows(0, range(10)))
    added = Round([file], {TOPIC_ID: 1, f"{TOPIC_ID}/0": 10}, {"their.own": [1]})
    assert not library.commit_round(writer.path, 1, added)
    assert library.commit_round(writer.path, 0, added)
    assert not library.commit_round(writer.path, 0, added)
    snapshot = load(writer.path)
    assert (snapshot.version, [*snapshot.files]) == (1, [file.path])
    assert snapshot.files[file.path].last_offset == 9


def test_a_file_with_a_deletion_vector_is_not_let_go(writer: Writer) -> None:
    writer.add(0, 0, 10)
    [file] = load(writer.path).files.values()
    gone = Removals([Removal(file.path, 0, file.size, vector=inline([1]))], 77, {})
    with pytest.raises(CommitRefused, match="has a deletion vector"):
        library.commit_removals(writer.path, 1, gone)
    assert load(writer.path).version == 1


def test_files_leave_at_the_version_that_was_read(writer: Writer) -> None:
    writer.add(0, 0, 10)
    [file] = load(writer.path).files.values()
    gone = Removals([Removal(file.path, 0, file.size)], 77, {})
    assert not library.commit_removals(writer.path, 0, gone)
    assert library.commit_removals(writer.path, 1, gone)
    snapshot = load(writer.path)
    assert (snapshot.files, snapshot.removed) == ({}, {file.path: 77})


def test_what_the_library_refuses_is_told_in_its_words(writer: Writer) -> None:
    features = [
        deltalake.TableFeatures.RowTracking,
        deltalake.TableFeatures.DomainMetadata,
    ]
    table = deltalake.DeltaTable(writer.path)
    table.alter.add_feature(features, allow_protocol_versions_increase=True)
    with pytest.raises(CommitRefused, match="Unsupported table features required"):
        library.commit_round(writer.path, 1, Round([], {}, {}))


def test_no_table_is_said(tmp_path: Path) -> None:
    with pytest.raises(TableMissing):
        library.commit_round(str(tmp_path / "none"), 0, Round([], {}, {}))


def test_a_checkpoint_is_synced_before_what_it_replaces_may_go(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.add(0, 0, 10)
    calls = SystemCalls(monkeypatch, Path(writer.path))
    library.checkpoint(writer.path, 1)
    assert calls.of("sync") == [
        "sync _delta_log/00000000000000000001.checkpoint.parquet",
        "sync _delta_log/_last_checkpoint",
        "sync directory _delta_log",
    ]
    assert load(writer.path).checkpoint == 1


def test_a_checkpoint_of_what_cannot_be_read_is_refused(writer: Writer) -> None:
    with pytest.raises(CommitRefused):
        library.checkpoint(writer.path, 5)


def test_a_table_whose_checkpoint_is_damaged_does_not_open(writer: Writer) -> None:
    writer.add(0, 0, 10)
    library.checkpoint(writer.path, 1)
    assert library.opens(writer.path)
    name = "00000000000000000001.checkpoint.parquet"
    Path(os.path.join(writer.path, LOG_DIRECTORY, name)).write_bytes(b"")
    assert not library.opens(writer.path)


class PanicException(BaseException):
    """As Rust's, which cannot be imported."""


def test_a_panic_is_an_error_and_what_ends_a_program_is_none() -> None:
    with pytest.raises(DeltaError, match="the library fell: no such page"):
        fall(PanicException("no such page"))
    for other in (KeyboardInterrupt(), ValueError("damaged")):
        with pytest.raises(type(other)) as raised:
            fall(other)
        assert raised.value is other


def fall(error: BaseException) -> None:
    with library.panics_raised():
        raise error
