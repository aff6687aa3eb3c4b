"""Houses that are taken down whatever happens in the test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.house import House


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """Makes a house in a directory of its own; see `House`."""
    houses: list[House] = []

    def make(data_dir: Path = tmp_path / "data", **how: Any) -> House:
        houses.append(House(data_dir, **how))
        return houses[-1]

    yield make
    for house in houses:
        house.end()
