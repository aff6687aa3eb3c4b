"""Finalized features, over a restart."""

from pathlib import Path

from broker.catalog import features
from broker.catalog.catalog import Catalog


def test_levels_are_kept_and_each_change_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path) as catalog:
        assert catalog.read(features.load) == ({}, 0)
        assert catalog.change(lambda c: features.store(c, {"a": 1, "b": 2})) == 1
        assert catalog.change(lambda c: features.store(c, {"a": 3})) == 2
    with Catalog.open(path) as catalog:
        assert catalog.read(features.load) == ({"a": 3, "b": 2}, 2)
