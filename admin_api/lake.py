"""The catalog and the Delta logs of a data directory, as the endpoints ask for them.

Read-only but for what is asked of the compactor, and without the broker: what is told
here is known while it is down. All of it blocks, so it is called on threads. Raises
CatalogError where there is no catalog, LakehouseError where a table is not there or
cannot be understood.

SQLAlchemy comes with the first question: 20 MB and a third of a second.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from admin_api.lake_threads import LakeThreads
from admin_api.problems import Problem
from broker.catalog.errors import CatalogError
from broker.ids import TopicNumber
from broker.protocol.errors import KafkaError
from broker.topics.topic import Topic
from lakehouse.errors import (
    LakehouseError,
    LogDamaged,
    TableMissing,
    TableUnreadable,
)
from lakehouse.location import check_contained, table_place, warehouse_of
from lakehouse.log import delta_log
from lakehouse.log.delta_log import Snapshot
from lakehouse.log.replaced import why_replaced

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from broker.catalog.catalog import Catalog

FOUND_ONE_BY_ONE_MAX = 200
"""More topics than a page has are found among all of them: two queries, and not two for
each."""
T = TypeVar("T")


class Lake:
    """Reads one data directory; opens what it needs for each question."""

    def __init__(self, data_dir: Path) -> None:
        self._catalog = data_dir.absolute() / "catalog.db"
        self._data_dir = data_dir
        self.threads = LakeThreads()
        """For who reads a table."""

    def cluster_id(self) -> str:
        """The id of the cluster whose data directory it is. Raises CatalogError."""
        with _in_words(self._catalog), self._open(read_only=True) as catalog:
            return catalog.cluster_id

    def names(self) -> list[str]:
        """The names of all topics, sorted."""
        from broker.catalog import topics

        return self.read(topics.load_names)

    def topic(self, name: str) -> Topic:
        """The topic. Raises Problem 40403 if there is none."""
        from broker.catalog import topics

        found = self.read(lambda connection: topics.find(connection, name))
        if found is None:
            raise Problem(40403, f"There is no topic {name}.")
        return found

    def topics(self, names: list[str]) -> list[tuple[Topic, dict[int, int]]]:
        """Those of the named topics that are there, and where their logs start, by
        partition; 0 where it is not said."""

        from broker.catalog import topics

        def query(connection: "Connection") -> list[tuple[Topic, dict[int, int]]]:
            if len(names) > FOUND_ONE_BY_ONE_MAX:
                return _out_of_all(connection, names)
            found = (topics.find(connection, name) for name in names)
            return [
                (topic, _by_partition(connection, topic)) for topic in found if topic
            ]

        return self.read(query)

    def read(self, query: Callable[["Connection"], T]) -> T:
        """What a query finds in the catalog. Raises CatalogError."""
        with _in_words(self._catalog), self._open(read_only=True) as catalog:
            return catalog.read(query)

    def change(self, change: Callable[["Connection"], T]) -> T:
        """What a change of the catalog gives, once it is durable.

        For what is asked of the other parts, and only where there is a catalog already.
        Raises CatalogError.
        """
        with _in_words(self._catalog):
            self._open(read_only=True).close()  # else it would be made
            with self._open(read_only=False) as catalog:
                return catalog.change(change)

    def place(self, topic: Topic) -> str:
        """The directory of a topic's table, whether there is one or not."""
        return table_place(warehouse_of(self._data_dir), topic.name)

    def snapshot(self, topic: Topic) -> Snapshot:
        """The newest state of the topic's table."""
        return self._of(topic, lambda path: delta_log.load(path, keep_removed=False))

    def snapshot_at(self, topic: Topic, version: int) -> Snapshot:
        """Its state at a version."""
        return self._of(topic, lambda path: delta_log.load_version(path, version))

    def _open(self, *, read_only: bool) -> "Catalog":
        from broker.catalog.catalog import Catalog

        return Catalog.open(self._catalog, read_only=read_only, upgrades=False)

    def _of(self, topic: Topic, load: Callable[[str], Snapshot]) -> Snapshot:
        path = self.place(topic)
        try:
            check_contained(path)
            snapshot = load(path)
        except LakehouseError:
            raise
        except Exception as error:  # an owner may do anything
            raise LogDamaged(f"{path}: {error or type(error).__name__}") from error
        identity = topic.id.hex()
        if snapshot.topic_id != identity:  # replaced, or an earlier topic's
            if why := why_replaced(snapshot, identity):
                raise TableUnreadable(why)
            raise TableMissing(f"Topic {topic.name} has no table yet.")
        return snapshot


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as error:
        raise CatalogError(f"the catalog {path}: {error.orig}") from error
    except KafkaError as error:  # what the writer says while the file is locked
        raise CatalogError(f"the catalog {path}: {error.message}") from error


def _by_partition(connection: "Connection", topic: Topic) -> dict[int, int]:
    from broker.catalog import topics

    found = topics.find_log_starts(connection, topic.number)
    return {partition: start for (_, partition), start in found.items()}


def _out_of_all(
    connection: "Connection", names: Iterable[str]
) -> list[tuple[Topic, dict[int, int]]]:
    from broker.catalog import topics

    by_name = {topic.name: topic for topic in topics.load(connection)}
    starts: dict[TopicNumber, dict[int, int]] = {}
    for (number, partition), start in topics.load_log_starts(connection).items():
        starts.setdefault(number, {})[partition] = start
    found = (by_name.get(name) for name in names)
    return [(topic, starts.get(topic.number, {})) for topic in found if topic]
