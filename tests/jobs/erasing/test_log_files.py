"""Each file in a log's directory is read as what its bytes are."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.erasing.log_files import TEXT, UNREADABLE, Said, said_in
from lakehouse.log import checksums


def kinds(log: Path) -> list[tuple[str, str]]:
    return [(said.file, said.kind) for said in said_in(str(log))]


@pytest.mark.parametrize("name", ["00000000000000000003.json", "3.crc", "odd"])
def test_lines_of_json_say_actions_whatever_the_name(tmp_path: Path, name: str) -> None:
    lines = [{"add": {"path": "x"}}, {"allFiles": [{"path": "y"}], "numFiles": 1}]
    (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
    assert list(said_in(str(tmp_path))) == [
        Said(name, "add", {"path": "x"}),
        Said(name, "add", {"path": "y"}),
        Said(name, "numFiles", 1),
    ]


@pytest.mark.parametrize("name", ["3.checkpoint.parquet", "3.checkpoint.parquet#1"])
def test_rows_of_parquet_say_actions_whatever_the_name(
    tmp_path: Path, name: str
) -> None:
    for path in (tmp_path / name, tmp_path / "odd"):
        table = pa.table({"add": [{"path": "x"}, None], "sidecar": [None, "y"]})
        pq.write_table(table, path)
    assert kinds(tmp_path) == [
        (name, "add"), (name, "sidecar"), ("odd", "add"), ("odd", "sidecar"),
    ]  # fmt: skip


def test_a_line_that_is_none_is_text_also_where_a_character_is_torn(
    tmp_path: Path,
) -> None:
    (tmp_path / "torn").write_bytes(b'{"add":{"path":"\xc3')
    [said] = said_in(str(tmp_path))
    assert said == Said("torn", TEXT, '{"add":{"path":"')
    (tmp_path / "torn").write_bytes(b'{"add":' + b"\0" * 100)
    assert kinds(tmp_path) == [("torn", TEXT)]


def test_bytes_of_no_text_and_parquet_without_its_end_are_unreadable(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe")
    (tmp_path / "b.checkpoint.parquet").write_bytes(b"PAR1 and more")
    (tmp_path / "c.checkpoint.parquet").write_bytes(b"\0" * 100)
    (tmp_path / "d").symlink_to(tmp_path)
    (tmp_path / "e").write_bytes("notes".encode("utf-16-be"))
    assert sorted(kinds(tmp_path)) == [
        ("a", UNREADABLE), ("b.checkpoint.parquet", UNREADABLE),
        ("c.checkpoint.parquet", UNREADABLE), ("d", UNREADABLE),
        ("e", UNREADABLE),
    ]  # fmt: skip


def test_what_has_no_bytes_of_rows_says_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty.parquet").write_bytes(b"")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / ".3.json.crc").write_bytes(b"crc\0\xff")
    path = tmp_path / "3.checkpoint.parquet"
    path.write_bytes(b"")
    checksums.note(str(tmp_path), {path.name: checksums.measure(str(path))})
    assert (tmp_path / checksums.NAME).exists()
    assert kinds(tmp_path) == []
    assert kinds(tmp_path / "nowhere") == []
