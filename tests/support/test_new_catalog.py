"""The copied catalog is the one that a start would make."""

import sqlite3
from contextlib import closing
from pathlib import Path

from broker.catalog.catalog import Catalog
from tests.support.new_catalog import NAME, lay_catalog


def dump(path: Path, cluster_id: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [line.replace(cluster_id, "ID") for line in connection.iterdump()]


def test_what_is_laid_is_what_would_be_made(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "made.db") as made:
        wanted = dump(tmp_path / "made.db", made.cluster_id)
    path = lay_catalog(tmp_path)
    assert path == tmp_path / NAME
    with Catalog.open(path) as laid:
        assert dump(path, laid.cluster_id) == wanted
    assert any("ID" in line for line in wanted)


def test_one_that_is_there_is_left_alone(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / NAME) as first:
        wanted = first.cluster_id
    with Catalog.open(lay_catalog(tmp_path)) as again:
        assert again.cluster_id == wanted
