"""How often a table's bytes were written, held against the files that are there."""

import json
from pathlib import Path

from lakehouse.log.delta_log import entry_path
from lakehouse.log.writes import Written, written
from tests.support.tables import Writer


def bytes_below(path: str) -> int:
    return sum(file.stat().st_size for file in Path(path).rglob("*.parquet"))


def entry(writer: Writer, version: int, size: int, **said: object) -> None:
    """Somebody's entry that adds a file of so many bytes."""
    info = {"commitInfo": {"timestamp": 1, **said}}
    name = f"partition=0/{version}.parquet"
    body = {"path": name, "partitionValues": {"partition": "0"}, "size": size,
            "modificationTime": 1, "dataChange": False}  # fmt: skip
    lines = [json.dumps(info), json.dumps({"add": body})]
    Path(entry_path(writer.path, version)).write_text("\n".join(lines))


def test_new_rows_were_written_once(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    assert written(writer.path) == Written(0, 0, 0)
    assert written(writer.path).amplification_percent is None
    for first in (0, 10, 20):
        writer.add(0, first, first + 10)
    assert written(writer.path) == Written(bytes_below(writer.path), 0, 0)
    assert written(writer.path).amplification_percent == 100


def test_what_is_written_again_counts_and_what_an_owner_writes_does_not(
    tmp_path: Path,
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    new = bytes_below(writer.path)
    entry(writer, 2, 3 * new, **{"lakelog.merged": {"0": [1, 10]}})
    entry(writer, 3, 7 * new, operation="OPTIMIZE")
    assert written(writer.path) == Written(new, 3 * new, 0)
    assert written(writer.path).amplification_percent == 400


def test_of_many_entries_the_newest_are_read_and_damaged_ones_passed_over(
    tmp_path: Path,
) -> None:
    writer = Writer(str(tmp_path))
    for first in (0, 10, 20):
        writer.add(0, first, first + 10)
    whole = written(writer.path)
    last = written(writer.path, entries_max=1)
    assert last.since_version == 3
    assert 0 < last.new_bytes < whole.new_bytes
    for version, text in ((1, "{torn"), (2, '{"add": {"path": 1}}')):
        Path(entry_path(writer.path, version)).write_text(text)
    assert written(writer.path) == last._replace(since_version=0)
