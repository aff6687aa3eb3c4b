"""What readers take in place of entries is found, and not looked for in each commit."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.log.delta_log import LOG_DIRECTORY, stamp
from lakehouse.log.log_compactions import covering, reaching, span_of, unseen


@pytest.fixture
def log(tmp_path: Path) -> Path:
    directory = tmp_path / LOG_DIRECTORY
    directory.mkdir()
    return directory


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    listed, found = os.listdir, list[str]()
    monkeypatch.setattr(os, "listdir", lambda at: found.append(at) or listed(at))
    return found


def name(first: int, last: int) -> str:
    return f"{first:020d}.{last:020d}.compacted.json"


def do(log: Path, act: Callable[[], object]) -> None:
    """Something that the directory's time tells of, however coarse the clock is."""
    before = stamp(str(log.parent))
    act()
    while stamp(str(log.parent)) == before:
        (log / "touched").touch()
        (log / "touched").unlink()


@pytest.mark.parametrize(
    ("one", "span"),
    [
        (name(3, 17), (3, 17)),
        (f".{name(3, 17)}.crc", (3, 17)),
        (f"{name(3, 17)}.crc", None),
        (f".{name(3, 17)}", None),
        (f".{name(3, 17)}.80a083e8.tmp", None),
        (f"{3:020d}.json", None),
        (f"{3:020d}.{17:020d}.json", None),
        ("3.17.compacted.json", None),
    ],
)
def test_its_name_says_of_which_versions_it_is(
    one: str, span: tuple[int, int] | None
) -> None:
    assert span_of(one) == span


def test_those_of_a_version_and_those_that_reach_to_it(log: Path) -> None:
    spans = (1, 2), (1, 3), (3, 3), (3, 5), (4, 5)
    for first, last in spans:
        (log / name(first, last)).touch()
    (log / f".{name(1, 3)}.crc").touch()
    found = covering(str(log.parent), 3)
    assert sorted(found) == [f".{name(1, 3)}.crc", name(1, 3), name(3, 3), name(3, 5)]
    assert sorted(reaching(str(log.parent), 4)) == [name(3, 5), name(4, 5)]
    assert reaching(str(log.parent), 6) == []


def test_where_no_log_is_there_is_none(tmp_path: Path) -> None:
    assert covering(str(tmp_path), 0) == reaching(str(tmp_path), 0) == []


def test_a_log_is_listed_again_behind_what_others_do_to_it(
    log: Path, listings: list[str]
) -> None:
    path = str(log.parent)
    for _ in range(3):
        assert reaching(path, 3) == []
    assert len(listings) == 1
    do(log, (log / name(2, 3)).touch)
    assert reaching(path, 3) == reaching(path, 3) == [name(2, 3)]
    do(log, (log / name(2, 3)).unlink)
    assert reaching(path, 3) == reaching(path, 4) == []
    assert len(listings) == 4


def test_it_is_not_behind_what_we_do_if_nobody_did_anything_before(
    log: Path, listings: list[str]
) -> None:
    path = str(log.parent)
    assert reaching(path, 3) == []
    for version in (3, 4):
        with unseen(path):
            do(log, (log / f"{version:020d}.json").touch)
        assert reaching(path, version + 1) == []
    assert len(listings) == 1
    do(log, (log / name(4, 5)).touch)
    with unseen(path):
        do(log, (log / "ours").touch)
    assert reaching(path, 5) == [name(4, 5)]
