"""Where tables end, as their logs say now, whatever was read of them before."""

import os
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
import pytest

from broker.ids import TopicNumber
from broker.topics.topic import Topic
from jobs.tables import Tables
from lakehouse import library
from lakehouse.commit import commit_files
from lakehouse.delta_log import LOG_DIRECTORY, entry_path, load, table_ends
from lakehouse.entry import Round
from lakehouse.errors import CommitRefused
from lakehouse.proven_checkpoint import make_checkpoint
from tests.support.tables import TOPIC_ID, Writer

TOPIC = Topic(TopicNumber(7), bytes.fromhex(TOPIC_ID), "orders", 2, {})


def test_a_table_ends_where_its_commits_do(tmp_path: Path) -> None:
    writer, tables = Writer(str(tmp_path)), Tables(str(tmp_path))
    assert tables.ends([TOPIC]) == {}
    writer.add(0, 0, 10)
    assert tables.ends([TOPIC]) == {(7, 0): 10}
    writer.add(1, 0, 5)
    assert tables.ends([TOPIC]) == {(7, 0): 10, (7, 1): 5}


def test_a_commit_that_its_owner_took_out_is_not_gone_on_from(tmp_path: Path) -> None:
    """The next one would go over its offsets, as if they were in the table."""
    writer, tables = Writer(str(tmp_path)), Tables(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    assert tables.ends([TOPIC]) == {(7, 0): 20}
    os.unlink(entry_path(writer.path, 2))
    assert tables.ends([TOPIC]) == {(7, 0): 10}


def test_a_commit_that_its_owner_replaced_is_read_anew(tmp_path: Path) -> None:
    writer, tables = Writer(str(tmp_path)), Tables(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    assert tables.ends([TOPIC]) == {(7, 0): 20}
    os.unlink(entry_path(writer.path, 2))
    writer.add(1, 0, 5)
    assert tables.ends([TOPIC]) == {(7, 0): 10, (7, 1): 5}


def test_a_commit_on_the_followed_table_moves_its_ends(tmp_path: Path) -> None:
    Writer(str(tmp_path))
    tables = Tables(str(tmp_path))
    table = tables.open(TOPIC)
    commit_files(
        table.path, table.id, table.next_round, {0: (0, 7)}, [], snapshot=table.snapshot
    )
    assert table.next_round == 2
    assert tables.ends([TOPIC]) == {(7, 0): 7}


def test_what_a_killed_writer_left_in_the_log_is_gone_at_the_next_start(
    tmp_path: Path,
) -> None:
    writer = Writer(str(tmp_path))
    left = Path(writer.path) / "_delta_log" / ".entry-00000000000000000001-ab.tmp"
    left.touch()
    Tables(str(tmp_path)).open(TOPIC)
    assert not left.exists()


def felled(path: str, version: int) -> None:
    """One byte of a checkpoint is another one, so that the library falls over it, and
    nobody can read it."""
    file = Path(path) / LOG_DIRECTORY / f"{version:020d}.checkpoint.parquet"
    whole = file.read_bytes()
    columns = pq.ParquetFile(file).metadata.row_group(0)
    for number in range(columns.num_columns):
        if columns.column(number).dictionary_page_offset is None:
            continue
        at = columns.column(number).dictionary_page_offset + _SIZE_AT
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 2]) + whole[at + 1 :])
        try:
            deltalake.DeltaTable(path)
        except Exception:
            continue
        except BaseException:
            if load(path).damaged:
                return
    raise AssertionError("the library falls over nothing")


_SIZE_AT = 5
"""Of the header of an empty dictionary: how long it is."""


def test_a_checkpoint_that_fells_the_library_is_stash(tmp_path: Path) -> None:
    """A panic is no Exception, and would end the compactor at each start."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    library.checkpoint(writer.path, 1)
    writer.add(0, 10, 20)
    felled(writer.path, 1)
    assert not library.opens(writer.path)
    with pytest.raises(CommitRefused, match="fell"):
        library.checkpoint(writer.path, 2)
    with pytest.raises(CommitRefused, match="fell"):
        library.commit_round(writer.path, 2, Round([], {}, {}))
    tables = Tables(str(tmp_path))
    assert tables.ends([TOPIC]) == {(7, 0): 20}
    assert library.opens(writer.path)
    library.checkpoint(writer.path, 2)


@pytest.mark.parametrize("is_proven", [True, False])
def test_another_state_in_a_checkpoint_is_neither_gone_on_from_nor_kept(
    tmp_path: Path, is_proven: bool
) -> None:
    """As one bit in twenty of them has it. Its file's times are what they were."""
    writer = Writer(str(tmp_path))
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    library.checkpoint(writer.path, 2)
    if is_proven:
        make_checkpoint(load(writer.path), 3)
    else:
        library.checkpoint(writer.path, 3)
    two, three = (
        Path(writer.path) / LOG_DIRECTORY / f"{version:020d}.checkpoint.parquet"
        for version in (2, 3)
    )
    found = os.stat(three)
    three.write_bytes(two.read_bytes())
    os.utime(three, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert table_ends(load(writer.path)) == {0: 30 if is_proven else 20}
    tables = Tables(str(tmp_path))
    assert tables.open(TOPIC).ends == {0: 30}
    assert not three.exists()
    assert Path(f"{three}.damaged").exists()
    assert library.opens(writer.path)
    writer.round = 3
    writer.add(0, 30, 40)
    assert table_ends(load(writer.path)) == {0: 40}


def test_a_checkpoint_that_somebody_made_is_proven_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, tables = Writer(str(tmp_path)), Tables(str(tmp_path))
    writer.add(0, 0, 10)
    tables.open(TOPIC)
    library.checkpoint(writer.path, 1)
    looked: list[str] = []
    monkeypatch.setattr(library, "why_closed", looked.append)
    for _ in range(3):
        tables.open(TOPIC)
        tables.forget(TOPIC.number)
    assert len(set(looked)) == 1
    first = len(looked)
    Tables(str(tmp_path)).open(TOPIC)  # the next start
    assert len(looked) == first
