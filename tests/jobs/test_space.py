"""Whoever makes room or takes some steps back before the broker refuses to write."""

import shutil
from pathlib import Path

import pytest

from jobs import space
from jobs.space import is_little, little_left

MIB = 1 << 20


@pytest.mark.parametrize(
    ("free", "total", "little"),
    [
        (511, 100_000, True),
        (512, 100_000, False),
        (99, 1_000, True),  # a tenth of a small disk
        (100, 1_000, False),
    ],
)
def test_little_is_less_than_the_mark_or_than_a_tenth(
    free: int, total: int, little: bool
) -> None:
    assert is_little(free * MIB, total * MIB, 512 * MIB) == little


def test_a_disk_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert little_left(str(tmp_path), 0) is None
    assert little_left(str(tmp_path / "none"), 1 << 62) is None
    monkeypatch.setattr(space, "SHARE", 1)
    free = little_left(str(tmp_path), 1 << 62)
    assert free is not None
    assert 0 <= free < shutil.disk_usage(tmp_path).total
