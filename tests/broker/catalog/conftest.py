"""A catalog in a directory of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.catalog.catalog import Catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.db") as opened:
        yield opened
