"""A log compaction file that is no copy of its entries is read by nobody for long."""

import errno
import json
import os
from pathlib import Path

import deltalake
import pytest

from lakehouse.log import compaction_repair
from lakehouse.log.compaction_repair import repair_compactions, why_no_copy
from lakehouse.log.delta_log import entry_path, load, read_entry
from tests.support.bitmaps import delete_rows
from tests.support.compacted_log import compact_log
from tests.support.syscalls import SystemCalls
from tests.support.tables import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    writer = Writer(str(tmp_path))
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    return writer


def compacted_name(first: int, last: int) -> str:
    return f"{first:020d}.{last:020d}.compacted.json"


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def test_a_copy_is_one_however_its_writer_says_it(writer: Writer) -> None:
    """Features in another order, say, and without what stood for nothing."""
    path = writer.path
    deltalake.DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    deltalake.DeltaTable(path).delete("offset = 3")
    for rows in ([1], [1, 2]):
        delete_rows(writer, {"partition=0/0002-10-20.parquet": rows})
    last = load(path).version
    for first in range(last + 1):
        file, _ = compact_log(path, first, last)
        said = [json.dumps(json.loads(line), sort_keys=True) for line in lines(file)]
        file.write_text("\n".join(reversed(said)))
        assert why_no_copy(path, file.name) is None
    assert repair_compactions(load(path)) is None


@pytest.mark.parametrize("bytes_left", [0, 700])
def test_what_a_power_cut_left_of_one_is_put_aside(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, bytes_left: int
) -> None:
    """Without a byte it is entries without actions to whoever reads it."""
    whole, _ = compact_log(writer.path, 0, 1)
    file, checksum = compact_log(writer.path, 2, 3)
    os.truncate(file, bytes_left)
    calls = SystemCalls(monkeypatch, file.parent)
    why = repair_compactions(load(writer.path)) or ""
    assert why.startswith(f"{file.name}: ")
    assert [one.exists() for one in (whole, file, checksum)] == [True, False, False]
    assert (file.parent / f"{file.name}.damaged").exists()
    assert calls.events[-1] == "sync directory ."
    assert repair_compactions(load(writer.path)) is None


@pytest.mark.parametrize("text", ["[" * 200_000, '{"add":[]}', "[1]", '{"txn":{}}'])
def test_whatever_stands_in_one_is_told(writer: Writer, text: str) -> None:
    file, _ = compact_log(writer.path, 2, 3)
    file.write_text(text)
    assert "it cannot be read: " in (repair_compactions(load(writer.path)) or "")


def test_what_is_no_file_is_no_copy(writer: Writer) -> None:
    file, _ = compact_log(writer.path, 2, 3)
    file.unlink()
    os.mkfifo(file)
    assert "no file but a FIFO" in (repair_compactions(load(writer.path)) or "")
    assert not file.exists()


@pytest.mark.parametrize(
    ("kind", "what"),
    [("add", "file partition=0/0003-20-30.parquet"), ("txn", "txn"), ("remove", "file"),
     ("metaData", "metaData"), ("protocol", "protocol")],
)  # fmt: skip
def test_one_that_lacks_what_its_entries_say_is_no_copy(
    writer: Writer, kind: str, what: str
) -> None:
    path = writer.path
    deltalake.DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})
    deltalake.DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    Path(entry_path(path, 6)).write_text(json.dumps(protocol))
    deltalake.DeltaTable(path).delete("offset = 3")
    file, _ = compact_log(path, 3, 7)
    said = [line for line in lines(file) if kind not in json.loads(line)]
    assert len(said) < len(lines(file))
    file.write_text("\n".join(said))
    assert f" of {what}" in (why_no_copy(path, file.name) or "")


def test_one_that_has_what_they_do_not_say_is_no_copy(writer: Writer) -> None:
    """As where another entry has come at the version since."""
    file, _ = compact_log(writer.path, 2, 3)
    entry = Path(entry_path(writer.path, 3))
    entry.write_bytes(read_entry(writer.path, 1))
    assert "says otherwise of" in (why_no_copy(writer.path, file.name) or "")


def test_a_file_that_was_there_before_and_comes_again_and_leaves_is_to_be_said(
    writer: Writer,
) -> None:
    """As where its statistics are written anew: who read it before would keep it."""
    path = writer.path
    entry = read_entry(path, 1).decode().splitlines()
    [add] = [one for one in map(json.loads, entry) if "add" in one]
    add["add"]["dataChange"] = False
    Path(entry_path(path, 4)).write_text(json.dumps(add))
    writer.add(0, 30, 40)
    deltalake.DeltaTable(path).delete("offset < 10")
    file, _ = compact_log(path, 4, 6)
    assert why_no_copy(path, file.name) is None
    unsaid = [line for line in lines(file) if "remove" not in json.loads(line)]
    file.write_text("\n".join(unsaid))
    assert "says otherwise of file" in (why_no_copy(path, file.name) or "")
    file.write_bytes(b"")
    assert why_no_copy(path, file.name) == "it says nothing"


def test_an_old_transaction_of_an_owners_may_be_left_out_where_he_has_it_so(
    writer: Writer,
) -> None:
    path = writer.path
    own = {"txn": {"appId": "his", "version": 3, "lastUpdated": 1}}
    Path(entry_path(path, 4)).write_text(json.dumps(own))
    file, _ = compact_log(path, 2, 4)
    left = [line for line in lines(file) if '"his"' not in line]
    assert len(left) < len(lines(file))
    file.write_text("\n".join(left))
    assert why_no_copy(path, file.name) == "it says otherwise of txn his"
    assert why_no_copy(path, file.name, expires=True) is None
    ours = [line for line in left if "txn" not in json.loads(line)]
    file.write_text("\n".join(ours))
    assert "says otherwise of txn" in (why_no_copy(path, file.name, expires=True) or "")


def test_a_fault_of_ours_says_nothing_of_a_file(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = compact_log(writer.path, 2, 3)

    def refuse(path: str) -> object:
        raise OSError(errno.EMFILE, "Too many open files", path)

    monkeypatch.setattr(compaction_repair, "open_file", refuse)
    assert repair_compactions(load(writer.path)) is None
    assert file.exists()


def test_a_file_that_came_and_left_in_between_may_be_unsaid_but_not_there(
    writer: Writer,
) -> None:
    deltalake.DeltaTable(writer.path).delete("offset >= 20")
    file, _ = compact_log(writer.path, 3, 4)
    said = [json.loads(line) for line in lines(file)]
    unsaid = [json.dumps(one) for one in said if "remove" not in one]
    assert len(unsaid) < len(said)
    file.write_text("\n".join(unsaid))
    assert why_no_copy(writer.path, file.name) is None
    added = [line for line in lines(Path(entry_path(writer.path, 3))) if "add" in line]
    file.write_text("\n".join(unsaid + added))
    assert why_no_copy(writer.path, file.name) is not None


def test_nobody_says_of_one_what_its_entries_do_not_tell(writer: Writer) -> None:
    """They are cleaned away, or the copy may be all that tells them."""
    file, _ = compact_log(writer.path, 2, 3)
    file.write_text("")
    entry = Path(entry_path(writer.path, 2))
    for act in (lambda: entry.write_text('{"add":{}}'), entry.unlink):
        act()
        assert why_no_copy(writer.path, file.name) is None
    assert why_no_copy(writer.path, compacted_name(0, 1)) is None


def test_what_a_checkpoint_stands_for_is_not_read(writer: Writer) -> None:
    """No reader takes it for the newest version."""
    deltalake.DeltaTable(writer.path).create_checkpoint()
    file, _ = compact_log(writer.path, 3, 3)
    file.write_text("")
    assert repair_compactions(load(writer.path)) is None
    assert why_no_copy(writer.path, file.name) is not None
