"""Room is made before the broker refuses to write, and no sooner."""

from pathlib import Path

import pytest

from jobs.space import is_little, is_short

MIB = 1 << 20


@pytest.mark.parametrize(
    ("free", "total", "little"),
    [
        (511, 100_000, True),  # twice the mark
        (512, 100_000, False),
        (99, 1_000, True),  # a mark of a twentieth of a small disk
        (100, 1_000, False),
    ],
)
def test_little_is_twice_the_brokers_low_mark(
    free: int, total: int, little: bool
) -> None:
    assert is_little(free * MIB, total * MIB, 256 * MIB) == little


def test_a_disk_is_looked_at(tmp_path: Path) -> None:
    assert not is_short(str(tmp_path), 0)
    assert not is_short(str(tmp_path / "none"), 256 * MIB)
