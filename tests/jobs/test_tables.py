"""Where tables end, as their logs say now, whatever was read of them before."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker.ids import TopicNumber
from broker.topics.topic import Topic
from jobs.tables import Tables
from lakehouse.errors import CommitRefused
from lakehouse.log import delta_log, library
from lakehouse.log.actions import Commit
from lakehouse.log.commit import commit_files
from lakehouse.log.delta_log import (
    LOG_DIRECTORY,
    Snapshot,
    entry_path,
    load,
    table_ends,
)
from lakehouse.log.entry import Round
from lakehouse.log.proven_checkpoint import make_checkpoint
from lakehouse.watching import log_watch
from tests.support.compacted_log import compact_log
from tests.support.spelling import overwrite
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


def test_one_that_its_owner_replaced_is_followed_no_more(tmp_path: Path) -> None:
    """Else a clean-up would take what he replaced for what retention took out."""
    writer, tables = Writer(tmp_path), Tables(str(tmp_path))
    writer.add(0, 0, 10)
    assert tables.ends([TOPIC])
    theirs = pa.schema([("a", pa.int32())])
    deltalake.DeltaTable.create(writer.path, theirs, mode="overwrite")
    assert tables.known([TOPIC]) == []
    assert "was replaced in version 2" in tables.unreadable[TOPIC.number]


def test_one_that_lost_columns_of_ours_is_told_at_the_look(tmp_path: Path) -> None:
    """And not only once a record comes."""
    writer, tables = Writer(str(tmp_path)), Tables(str(tmp_path))
    writer.add(0, 0, 10)
    assert len(tables.known([TOPIC])) == 1
    assert tables.refusing == {}
    overwrite(writer.path, ["key"])
    assert len(tables.known([TOPIC])) == 1
    why = "its table takes no commit: its column key is called KEY: write it once more"
    assert tables.refusing[TOPIC.number].startswith(why)
    assert tables.unreadable == {}
    deltalake.DeltaTable(writer.path).restore(1)
    assert len(tables.known([TOPIC])) == 1
    assert tables.refusing == {}
    overwrite(writer.path, ["key"])
    tables.known([TOPIC])
    tables.keep([])
    assert tables.refusing == {}


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


def test_checksums_of_entries_that_were_moved_aside_are_gone_at_the_next_start(
    tmp_path: Path,
) -> None:
    """As the guide has an owner undo what nothing else does."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    for version in (2, 3):
        Path(entry_path(writer.path, version)).with_suffix(".crc").write_text("{}")
    assert not library.opens(writer.path)
    Tables(str(tmp_path)).open(TOPIC)
    assert library.opens(writer.path)


def test_log_compactions_of_entries_that_were_moved_aside_are_gone_at_the_next_start(
    tmp_path: Path,
) -> None:
    """Or of what a repair that was killed had moved. Of others' none is."""
    writer = Writer(str(tmp_path))
    for n in range(4):
        writer.add(0, n * 10, n * 10 + 10)
    stays = [*compact_log(writer.path, 0, 1), *compact_log(writer.path, 1, 2)]
    goes = [*compact_log(writer.path, 1, 3), *compact_log(writer.path, 3, 4)]
    for version in (3, 4):
        os.unlink(entry_path(writer.path, version))
    Tables(str(tmp_path)).open(TOPIC)
    assert [one.name for one in goes if one.exists()] == []
    assert all(one.exists() for one in stays)


def test_a_log_compaction_that_is_no_copy_is_stash(tmp_path: Path) -> None:
    """As a power cut leaves one: Spark would see a table without these rows."""
    writer = Writer(str(tmp_path))
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    whole, _ = compact_log(writer.path, 0, 1)
    file, _ = compact_log(writer.path, 2, 3)
    file.write_bytes(b"")
    assert Tables(str(tmp_path)).ends([TOPIC]) == {(7, 0): 30}
    assert not file.exists()
    assert whole.exists()


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


def checkpoint_of_a_new_kind(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its owner's, which the library reads and we do not."""
    writer.add(0, 0, 10)
    library.checkpoint(writer.path, 1)
    writer.add(0, 10, 20)

    def refuse(*_: object) -> None:
        raise ValueError("a kind that is new to us")

    monkeypatch.setattr(delta_log, "read_checkpoint", refuse)
    return Path(writer.path) / LOG_DIRECTORY / f"{1:020d}.checkpoint.parquet"


def test_a_checksum_beyond_the_last_entry_is_held_against_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library opens no such table, whatever its checkpoint is."""
    writer = Writer(str(tmp_path))
    checkpoint = checkpoint_of_a_new_kind(writer, monkeypatch)
    Path(entry_path(writer.path, 4)).with_suffix(".crc").write_text("{}")
    assert not library.opens(writer.path)
    assert Tables(str(tmp_path)).open(TOPIC).ends == {0: 20}
    assert checkpoint.exists()
    assert library.opens(writer.path)


def another_state(writer: Writer, *, is_proven: bool) -> Path:
    """A checkpoint of version 3 tells the state of version 2, as one bit in twenty of
    them has it. Its file's times are what they were."""
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
    return three


def tear(writer: Writer) -> Path:
    """One entry more, of which a power cut left some."""
    entry = Path(entry_path(writer.path, load(writer.path).version + 1))
    entry.write_text('{"add":{"pa')
    return entry


@pytest.mark.parametrize("is_checksum_left", [True, False])
def test_a_torn_entry_is_held_against_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_checksum_left: bool
) -> None:
    """The library opens no such table, whatever its checkpoint is."""
    writer = Writer(str(tmp_path))
    checkpoint = checkpoint_of_a_new_kind(writer, monkeypatch)
    torn, tables = tear(writer), Tables(str(tmp_path))
    if is_checksum_left:
        torn.with_suffix(".crc").write_text("{}")
    assert tables.ends([TOPIC]) == {(7, 0): 20}  # which asks before anything is moved
    assert tables.open(TOPIC).ends == {0: 20}
    assert not torn.exists()
    assert checkpoint.exists()
    assert library.opens(writer.path)


def behind_empty(writer: Writer) -> None:
    """Of two entries of an owner's a power cut emptied the first; he goes on."""
    Path(entry_path(writer.path, 3)).write_bytes(b"")
    Path(entry_path(writer.path, 4)).write_text('{"commitInfo":{"operation":"HIS"}}')


@pytest.mark.parametrize("is_followed", [True, False])
def test_an_empty_entry_that_its_owner_went_on_from_is_a_version(
    tmp_path: Path, *, is_followed: bool
) -> None:
    writer, tables = Writer(str(tmp_path)), Tables(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    if is_followed:
        tables.open(TOPIC)
    behind_empty(writer)
    assert tables.open(TOPIC).snapshot.version == 4
    assert writer.add(0, 20, 30).version == 5
    assert tables.ends([TOPIC]) == {(7, 0): 30}
    assert deltalake.DeltaTable(writer.path).to_pyarrow_table().num_rows == 30
    assert tables.unreadable == {}


@pytest.mark.parametrize("is_proven", [True, False])
def test_behind_another_state_in_a_checkpoint_a_torn_entry_is_the_first_to_go(
    tmp_path: Path, is_proven: bool
) -> None:
    writer = Writer(str(tmp_path))
    three = another_state(writer, is_proven=is_proven)
    torn = tear(writer)
    assert Tables(str(tmp_path)).open(TOPIC).ends == {0: 30}
    assert not torn.exists()
    assert not three.exists()
    assert Path(f"{three}.damaged").exists()
    assert library.opens(writer.path)


@pytest.mark.parametrize("is_proven", [True, False])
def test_another_state_in_a_checkpoint_is_neither_gone_on_from_nor_kept(
    tmp_path: Path, is_proven: bool
) -> None:
    writer = Writer(str(tmp_path))
    three = another_state(writer, is_proven=is_proven)
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


class Counted:
    """Counts which tables' logs are looked at; what they say is as it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.logs: list[str] = []
        follow, load_ = delta_log.follow, delta_log.load

        def followed(snapshot: Snapshot) -> list[Commit]:
            self.logs.append(snapshot.path)
            return follow(snapshot)

        def loaded(path: str) -> Snapshot:
            self.logs.append(path)
            return load_(path)

        monkeypatch.setattr(delta_log, "follow", followed)
        monkeypatch.setattr(delta_log, "load", loaded)

    def take(self) -> list[str]:
        taken, self.logs = self.logs, []
        return taken


def some_topics(count: int) -> list[Topic]:
    topic_id = bytes.fromhex(TOPIC_ID)
    return [Topic(TopicNumber(n), topic_id, f"t{n}", 2, {}) for n in range(count)]


def test_tables_at_rest_are_asked_once_a_minute_and_what_moves_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms, topics = [0], some_topics(8)
    writers = [Writer(str(tmp_path), topic.name) for topic in topics[:4]]
    tables, counted = Tables(str(tmp_path), lambda: now_ms[0]), Counted(monkeypatch)

    def steps(duration_ms: int) -> list[str]:
        for _ in range(duration_ms // 200):
            now_ms[0] += 200
            tables.ends(topics)
            tables.known(topics)
        return counted.take()

    steps(12_000)
    assert len(steps(60_000)) <= 5
    before = tables.ends(topics)
    assert tables.ends(topics) is before
    writers[2].add(0, 0, 10)
    assert tables.ends(topics) == {(2, 0): 10}
    assert set(counted.take()) == {writers[2].path}
    new = Writer(str(tmp_path), "t6")
    new.add(1, 0, 5)
    assert tables.ends(topics) == {(2, 0): 10, (6, 1): 5}
    assert new.path in counted.take()
    assert [table.topic.number for table in tables.known(topics)] == [0, 1, 2, 3, 6]


def test_a_topic_that_was_altered_is_known_as_it_is(tmp_path: Path) -> None:
    writer, tables = Writer(str(tmp_path)), Tables(str(tmp_path))
    writer.add(0, 0, 10)
    tables.known([TOPIC])
    altered = replace(TOPIC, partitions=5)
    (table,) = tables.known([altered])
    assert table.topic is altered


def test_what_was_opened_or_forgotten_is_asked_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round may have committed to it, or found that it is not as it was known."""
    now_ms = [0]
    writer = Writer(str(tmp_path))
    tables = Tables(str(tmp_path), lambda: now_ms[0])
    counted = Counted(monkeypatch)
    tables.ends([TOPIC])
    now_ms[0] = 10_000
    tables.ends([TOPIC])
    tables.open(TOPIC)
    counted.take()
    tables.ends([TOPIC])
    assert counted.take() == [writer.path]
    tables.forget(TOPIC.number)
    tables.ends([TOPIC])
    assert set(counted.take()) == {writer.path}


def test_ends_are_those_of_now_whoever_looked_at_the_table_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintenance looks at all tables, between a round and the next step's question."""
    untold = partial(log_watch.LogWatch, tells=lambda path: False)
    monkeypatch.setattr("jobs.tables.LogWatch", untold)
    now_ms = [0]
    writer = Writer(str(tmp_path))
    tables = Tables(str(tmp_path), lambda: now_ms[0])
    writer.add(0, 0, 10)
    assert tables.ends([TOPIC]) == {(7, 0): 10}
    for now_ms[0] in range(200, 10_000, 200):
        tables.ends([TOPIC])
    table = tables.open(TOPIC)
    commit_files(
        table.path, table.id, table.next_round, {0: (10, 20)}, [],
        snapshot=table.snapshot,
    )  # fmt: skip
    tables.known([TOPIC])
    assert tables.ends([TOPIC]) == {(7, 0): 20}


def test_deleted_topics_are_forgotten(tmp_path: Path) -> None:
    *topics, absent = some_topics(4)
    writers = [Writer(str(tmp_path), topic.name) for topic in topics]
    tables = Tables(str(tmp_path))
    tables.known([*topics, absent])
    assert set(tables.absent) == {3}
    tables.keep({TopicNumber(1)})
    assert tables.absent == {}
    assert [n for n in range(3) if n in tables._looks] == [1]
    writers[2].add(0, 0, 10)
    assert [table.path for table in tables.known(topics[1:2])] == [writers[1].path]
    assert not tables._moved & {0, 2}
