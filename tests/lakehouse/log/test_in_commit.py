"""When a commit says that it was made: later than the one before it, where that is
asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.log import commit
from lakehouse.log.commit import remove_files
from lakehouse.log.delta_log import entry_path, load, read_entry
from lakehouse.log.entry import IN_COMMIT, Moment
from lakehouse.log.in_commit import ENABLED, FEATURE, moment_of
from tests.support.tables import TOPIC_ID, Writer

PLAIN = ("appendOnly", "invariants")


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def enable(
    writer: Writer, said: Any = None, value: str = "true", feature: str = FEATURE
) -> None:
    """Commit what an owner's ALTER TABLE does; ``said``: its own timestamp."""
    version = load(writer.path).version + 1
    first = [json.loads(line) for line in read_entry(writer.path, 0).splitlines()]
    [metadata] = [line["metaData"] for line in first if "metaData" in line]
    metadata["configuration"][ENABLED] = value
    features = [*PLAIN, feature]
    protocol = {
        "minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features,
    }  # fmt: skip
    info = {} if said is None else {IN_COMMIT: said}
    actions = [{"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata}]
    text = "\n".join(map(json.dumps, actions))
    Path(entry_path(writer.path, version)).write_text(text)


def said_by(writer: Writer, version: int) -> Any:
    """What the first action of an entry says."""
    first = json.loads(read_entry(writer.path, version).splitlines()[0])
    return first["commitInfo"].get(IN_COMMIT)


def test_nothing_is_said_where_nobody_asks(writer: Writer) -> None:
    writer.add(0, 0, 10)
    assert said_by(writer, 1) is None
    assert moment_of(load(writer.path), 5) == Moment(5)
    enable(writer, value="false")
    writer.add(0, 10, 20)
    assert said_by(writer, 3) is None


def test_a_property_without_its_feature_asks_nothing(writer: Writer) -> None:
    enable(writer, 7, feature="changeDataFeed")
    assert moment_of(load(writer.path), 5) == Moment(5)


@pytest.mark.parametrize(
    ("said", "wanted"), [(100, 101), (5, 6), (4, 5), (None, 5), ("x", 5), ([], 5)]
)
def test_a_commit_is_later_than_the_one_before_it(
    writer: Writer, said: Any, wanted: int
) -> None:
    enable(writer, said)
    assert moment_of(load(writer.path), 5) == Moment(5, wanted)


def test_the_clock_is_asked_where_the_entry_before_is_gone(writer: Writer) -> None:
    enable(writer, 100)
    table = load(writer.path)
    Path(entry_path(writer.path, 1)).unlink()
    assert moment_of(table, 5) == Moment(5, 5)


def test_commits_rise_while_the_clock_goes_back(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    enable(writer, 1_000)
    clock = iter([3_000, 2_000, 2_000, 1_000])
    tick: Callable[[], int] = lambda: next(clock)  # noqa: E731
    monkeypatch.setattr(commit, "_now_ms", tick)
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    old = min(load(writer.path).files.values(), key=lambda file: file.first_offset)
    remove_files(
        writer.path, TOPIC_ID, [(old.path, 0, old.size)], now_ms=1, log_starts={0: 10}
    )
    assert [said_by(writer, n) for n in range(2, 6)] == [3_000, 3_001, 3_002, 3_003]
