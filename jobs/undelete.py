"""Bringing back a deleted topic, as far as its table has it.

The problem: the name of a topic that was deleted by mistake is gone for clients, and
its table waits aside for its end. The idea: the table goes back to its place, and the
topic into the catalog, with the id that the table knows and a number of its own; so
nothing that segments still hold of its former life is taken for its records, and its
partitions go on where the table ends. First the table, then the catalog: who is
interrupted in between has a deleted topic as before, and may try again.

The price: it is done while nothing else runs. Records that were not in the table yet
when the topic was deleted, and the offsets that groups had committed, stay gone.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection

from broker.catalog import leases
from broker.catalog import topics as catalog_topics
from broker.catalog.catalog import Catalog
from broker.catalog.missing import check_not_lost
from broker.clock import Clock
from broker.ids import PartitionNumber, TopicNumber
from broker.protocol.errors import KafkaError
from broker.storage.directory import DataDirectory
from broker.storage.files import Files
from broker.storage.places import has_log
from broker.storage.warehouse import DirectoryRefused
from broker.topics.topic import Topic
from jobs.describe import facts_of
from jobs.lease import NAME, TTL_MS
from lakehouse.errors import LakehouseError, TableMissing
from lakehouse.log.delta_log import load, table_ends
from lakehouse.log.describe import describe_topic
from lakehouse.tables import take_back


class NotUndeleted(Exception):
    """The topic cannot be brought back; one sentence says why."""


class Undeleted(NamedTuple):
    topic: Topic
    path: str


def undelete(
    data_dir: Path, name: str, files: Files, clock: Clock, topic_id: str | None = None
) -> Undeleted:
    """Bring back the topic of that name, and id, that was deleted last of those of
    which a table is left. Blocks.

    Raises NotUndeleted, CatalogError and OSError.
    """
    owner = f"an undelete, process {os.getpid()}"
    try:
        directory = DataDirectory.claim(files, data_dir, owner)
    except DirectoryRefused as error:
        raise NotUndeleted(str(error)) from error
    with closing(directory), _opened(data_dir, owner, clock) as catalog:
        found = _undelete(catalog, str(directory.tables), name, topic_id)
        with suppress(LakehouseError, OSError):  # else the compactor has it say so
            describe_topic(found.path, facts_of(found.topic), {}, now_ms=clock.now_ms())
        return found


def _undelete(
    catalog: Catalog, warehouse: str, name: str, topic_id: str | None
) -> Undeleted:
    if catalog.read(lambda connection: catalog_topics.find(connection, name)):
        raise NotUndeleted(f"there is a topic {name!r}: delete it first")
    deleted = [
        one.topic
        for one in catalog.read(catalog_topics.list_deleted)
        if one.topic.name == name and topic_id in (None, one.topic.id.hex())
    ]
    for last in reversed(deleted):
        try:
            path = take_back(warehouse, name, last.id.hex())
        except TableMissing:
            continue  # one that never had records, as clients make it at once
        except LakehouseError as error:
            raise NotUndeleted(str(error)) from error
        return Undeleted(_revive(catalog, last.number, _ends(path)), path)
    whose = name if topic_id is None else f"{name} with the id {topic_id}"
    raise NotUndeleted(f"no topic {whose!r} was deleted of which a table is left")


def _ends(path: str) -> dict[PartitionNumber, int]:
    """Where a table ends, for a start that does not find it; none if it cannot be read:
    then that start waits for it."""
    try:
        found = table_ends(load(path, keep_removed=False))
    except (LakehouseError, OSError):
        return {}
    return {PartitionNumber(index): end for index, end in found.items()}


def _revive(
    catalog: Catalog, number: TopicNumber, ends: Mapping[PartitionNumber, int]
) -> Topic:
    try:
        return catalog.change(
            lambda connection: catalog_topics.revive(connection, number, ends)
        )
    except KafkaError as error:
        raise NotUndeleted(str(error)) from error


@contextmanager
def _opened(data_dir: Path, owner: str, clock: Clock) -> Iterator[Catalog]:
    """The catalog, held against compactors. One that is lost is not made here: a broker
    would start with it, and take all that the log holds for deleted topics'."""
    check_not_lost(data_dir, has_log=has_log(data_dir / "wal"))
    with (
        closing(Catalog.open(data_dir / "catalog.db")) as catalog,
        _no_compactor(catalog, owner, clock),
    ):
        yield catalog


@contextmanager
def _no_compactor(catalog: Catalog, owner: str, clock: Clock) -> Iterator[None]:
    """Hold the compactor's lease meanwhile: it would move the table aside again."""

    def acquire(connection: Connection) -> int | None:
        return leases.acquire(connection, NAME, owner, clock.now_ms(), TTL_MS)

    epoch = catalog.change(acquire)
    if epoch is None:
        raise NotUndeleted("a compactor runs, or did seconds ago: stop it first")
    try:
        yield
    finally:
        catalog.change(
            lambda connection: leases.release(connection, NAME, owner, epoch)
        )
