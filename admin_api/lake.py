"""The catalog and the Delta logs of a data directory, as the endpoints ask for them.

Read-only, and without the broker: what is told here is known while it is down. All of
it blocks, so it is called on threads. Raises CatalogError where there is no catalog,
LakehouseError where a table is not there or cannot be understood.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from admin_api.problems import Problem
from broker.catalog import topics as stored
from broker.catalog.catalog import Catalog
from broker.catalog.errors import CatalogError
from broker.topics.topic import Topic
from lakehouse import delta_log
from lakehouse.delta_log import Snapshot
from lakehouse.errors import LakehouseError, LogDamaged, TableMissing
from lakehouse.location import check_contained, table_place

T = TypeVar("T")


class Lake:
    """Reads one data directory; opens what it needs for each question."""

    def __init__(self, data_dir: Path) -> None:
        self._catalog = data_dir.absolute() / "catalog.db"
        self._tables = data_dir.absolute() / "tables"

    def names(self) -> list[str]:
        """The names of all topics, sorted."""
        return self._read(stored.load_names)

    def topic(self, name: str) -> Topic:
        """The topic. Raises Problem 40403 if there is none."""
        found = self._read(lambda connection: stored.find(connection, name))
        if found is None:
            raise Problem(40403, f"There is no topic {name}.")
        return found

    def topics(self, names: list[str]) -> list[tuple[Topic, dict[int, int]]]:
        """Those of the named topics that are there, and where their logs start, by
        partition; 0 where it is not said."""

        def query(connection: Connection) -> list[tuple[Topic, dict[int, int]]]:
            found = (stored.find(connection, name) for name in names)
            return [
                (topic, _by_partition(connection, topic)) for topic in found if topic
            ]

        return self._read(query)

    def place(self, topic: Topic) -> str:
        """The directory of a topic's table, whether there is one or not."""
        return table_place(self._tables, topic.name)

    def snapshot(self, topic: Topic) -> Snapshot:
        """The newest state of the topic's table."""
        return self._of(topic, lambda path: delta_log.load(path, keep_removed=False))

    def snapshot_at(self, topic: Topic, version: int) -> Snapshot:
        """Its state at a version."""
        return self._of(topic, lambda path: delta_log.load_version(path, version))

    def _of(self, topic: Topic, load: Callable[[str], Snapshot]) -> Snapshot:
        path = self.place(topic)
        try:
            check_contained(path)
            snapshot = load(path)
        except LakehouseError:
            raise
        except Exception as error:  # an owner may do anything
            raise LogDamaged(f"{path}: {error or type(error).__name__}") from error
        if snapshot.topic_id != topic.id.hex():  # an earlier topic of this name
            raise TableMissing(f"Topic {topic.name} has no table yet.")
        return snapshot

    def _read(self, query: Callable[[Connection], T]) -> T:
        try:
            with Catalog.open(self._catalog, read_only=True) as catalog:
                return catalog.read(query)
        except DBAPIError as error:
            why = f"the catalog {self._catalog} cannot be read: {error.orig}"
            raise CatalogError(why) from error


def _by_partition(connection: Connection, topic: Topic) -> dict[int, int]:
    found = stored.find_log_starts(connection, topic.number)
    return {partition: start for (_, partition), start in found.items()}
