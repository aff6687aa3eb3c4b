"""Producer ids are given once."""

from pathlib import Path

from broker.catalog import producers
from broker.catalog.catalog import Catalog


def test_blocks_follow_each_other_over_restarts(tmp_path: Path) -> None:
    given: list[int] = []
    for count in (10, 1, 1000):
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            given += catalog.change(lambda c, n=count: producers.next_block(c, n))
    assert given == list(range(1_011))
