"""A file left twice: as it was, for its deletion vector's sake, and then with that. It
counts as having left the second time, from wherever that is read."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakehouse.errors import CommitRefused
from lakehouse.log import library, proven_checkpoint
from lakehouse.log.actions import parse_commit
from lakehouse.log.checkpoint import read_checkpoint
from lakehouse.log.delta_log import LOG_DIRECTORY, Snapshot, entry_path, load
from lakehouse.log.proven_checkpoint import make_checkpoint
from tests.support.bitmaps import delete_rows, inline
from tests.support.tables import Writer
from tests.support.v2_checkpoint import as_v2

NOW_MS = time.time_ns() // 1_000_000
FIRST_MS = NOW_MS - 6 * 86_400_000


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    """A table of three files, of which the first left twice."""
    made = Writer(str(tmp_path))
    for n in range(3):
        made.add(0, n * 10, n * 10 + 10)
    delete_rows(made, {path(made): [3]})
    entry = Path(entry_path(made.path, 4))
    said = entry.read_text().replace(
        '"deletionTimestamp": 1,', f'"deletionTimestamp": {FIRST_MS},'
    )
    entry.write_text(said)
    vector = {"deletionVector": inline([3]).body}
    commit(made, {"remove": removed(made, NOW_MS) | vector})
    return made


def path(writer: Writer) -> str:
    """Of the first file."""
    return min(parse_commit(1, Path(entry_path(writer.path, 1)).read_bytes()).adds).path


def removed(writer: Writer, when_ms: int) -> dict[str, Any]:
    return {"path": path(writer), "deletionTimestamp": when_ms, "dataChange": True}


def commit(writer: Writer, *actions: Mapping[str, Any]) -> None:
    entry = Path(entry_path(writer.path, load(writer.path).version + 1))
    entry.write_text("\n".join(map(json.dumps, actions)))


def test_a_checkpoint_of_ours_tells_when_it_left_last(writer: Writer) -> None:
    followed = load(writer.path)
    assert followed.removed == {path(writer): NOW_MS}
    assert make_checkpoint(followed, followed.version) is None
    loaded = load(writer.path)
    assert loaded.checkpoint == followed.version
    assert loaded.removed == followed.removed


@pytest.mark.parametrize("kind", ["classic", "parquet", "json"])
@pytest.mark.parametrize("is_turned", [True, False])
def test_whichever_it_says_first(writer: Writer, kind: str, is_turned: bool) -> None:
    name, version = path(writer), load(writer.path).version
    if kind == "classic":
        library.checkpoint(writer.path, version)
        log = Path(writer.path) / LOG_DIRECTORY
        place = log / f"{version:020d}.checkpoint.parquet"
    else:
        place = as_v2(writer, kind)
    if is_turned and kind == "json":
        place.write_text("\n".join(reversed(place.read_text().splitlines())))
    elif is_turned:
        table = pq.read_table(place)
        pq.write_table(table.take(list(range(len(table)))[::-1]), place)
    state = read_checkpoint(str(place.parent), version, [place.name], {})
    assert state.removes == {name: NOW_MS}


def test_one_entry_may_tell_both(writer: Writer) -> None:
    times = [FIRST_MS, NOW_MS, FIRST_MS]
    said = [json.dumps({"remove": removed(writer, when)}) for when in times]
    text = "\n".join(said).encode()
    assert parse_commit(9, text).removes == {path(writer): NOW_MS}


def test_one_that_tells_an_earlier_time_does_not_stay(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = load(writer.path)
    followed.removed[path(writer)] += 1
    monkeypatch.setattr(proven_checkpoint, "complete", lambda *_, **__: None)
    with pytest.raises(CommitRefused, match=r"does not tell .*: when .* left"):
        make_checkpoint(followed, followed.version)
    assert load(writer.path).checkpoint == -1


@pytest.mark.parametrize("is_turned", [True, False])
def test_by_another_name_it_is_the_same_file(
    writer: Writer, *, is_turned: bool
) -> None:
    """A clone that its owner put back names it by where it lies."""
    named = [(path(writer), NOW_MS), (f"file:{writer.path}/{path(writer)}", FIRST_MS)]
    found = Snapshot(writer.path, removed=dict(named[::-1] if is_turned else named))
    assert found.left == {path(writer): NOW_MS}
