"""``lakelog rebuild``: a catalog that was lost, made again.

Topics with their ids, numbers, partitions, configurations and log starts come from what
their tables say (`lakehouse.topic_facts`); where partitions end the tables and the log
tell the next start themselves. What only the catalog knew and nothing else tells is
gone: groups and their offsets, transactional ids, what clients configured of brokers,
groups and client metrics, levels of features.

Producer ids are given from a number on that is above every id in the log, and above the
present time in milliseconds: ids were counted from 0, or from an earlier time by an
earlier rebuild, and nobody has asked for more than one in each millisecond since. So
none is given again even if its records are in tables alone, which do not name it.
Leader epochs are 0 always; leases begin anew, since rounds are numbered by the tables.
"""

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psutil
from sqlalchemy.exc import SQLAlchemyError

from broker.catalog import topics as stored_topics
from broker.catalog.catalog import Catalog
from broker.catalog.engine import is_out_of_reach
from broker.catalog.errors import CatalogError, CatalogTooNew
from broker.clock import Clock
from broker.failpoints import passing
from broker.ids import PartitionNumber, TopicPartition
from broker.runtime.rebuilding.found_log import Place, find_orphans, found_log
from broker.runtime.rebuilding.found_tables import find_tables
from broker.runtime.rebuilding.new_catalog import NAME, aside_name, place, stage
from broker.runtime.rebuilding.orphans import Ended, ended
from broker.runtime.rebuilding.plan import NO_ANSWERS, Answers, Plan, plan_topics
from broker.status import file as status_file
from broker.status.schema import BrokerStatus, CompactorStatus
from broker.storage.directory import DataDirectory
from broker.storage.files import Files
from broker.storage.warehouse import DirectoryRefused
from lakehouse import further


class NotRebuilt(Exception):
    """Nothing was made; one sentence a line says why."""


class Rebuilt(NamedTuple):
    """What was made, or would be. ``ends``: partition -> where its log ends, as tables
    and segments say; ``orphans``: transactions that were open; ``damage``: what of the
    log is not whole; ``aside``: what was in the catalog's place."""

    plan: Plan
    ends: dict[TopicPartition, int]
    orphans: list[Ended]
    damage: list[str]
    first_producer_id: int
    cluster_id: str | None
    aside: list[Path]


def rebuild(
    data_dir: Path,
    files: Files,
    clock: Clock,
    *,
    answers: Answers = NO_ANSWERS,
    dry_run: bool = False,
    force: bool = False,
    new_id: Callable[[], bytes] = lambda: os.urandom(16),
) -> Rebuilt:
    """Make the catalog of a data directory again. Blocks.

    ``dry_run``: find out what would be made, and make nothing. ``force``: also where
    there is a catalog that can be read, which moves aside as a damaged one does.

    Raises NotRebuilt, OSError.
    """
    if not (data_dir / "tables").is_dir() and not (data_dir / "wal").is_dir():
        raise NotRebuilt(f"{data_dir} is not a data directory of Lakelog")
    owner = f"a rebuild, process {os.getpid()}"
    try:
        directory = DataDirectory.claim(files, data_dir, owner)
    except DirectoryRefused as error:
        raise NotRebuilt(str(error)) from error
    with closing(directory):
        _check_no_compactor(data_dir, clock)
        _check_all_there(str(directory.tables))
        _check_lost(data_dir, is_forced=force)
        passing("rebuild.begun")
        made = _found(directory, clock.now_ms(), answers, new_id)
        if made.plan.unanswered:
            raise NotRebuilt("\n".join(made.plan.problems + made.plan.unanswered))
        passing("rebuild.planned")
        return made if dry_run else _make(data_dir, made, clock.now_ms())


def _found(
    directory: DataDirectory,
    now_ms: int,
    answers: Answers,
    new_id: Callable[[], bytes],
) -> Rebuilt:
    tables = find_tables(directory.tables)
    with found_log(directory.wal) as log:
        plan = plan_topics(tables, log.held, log.ends, answers, new_id)
        places: dict[TopicPartition, Place] = {}
        for topic, starts, table_ends, is_deleted, _ in plan.topics:
            for index in map(PartitionNumber, range(topic.partitions)):
                if not is_deleted:
                    found = starts.get(index, 0), table_ends.get(index, 0)
                    places[topic.number, index] = found
        logged = {key: places[key] for key in places.keys() & log.ends.keys()}
        orphans = find_orphans(log, logged, now_ms)
        ends = {key: max(*where, log.ends.get(key, 0)) for key, where in places.items()}
        damage = list(log.damage)
    return Rebuilt(
        plan,
        ends,
        ended(orphans.open, orphans.markers, now_ms),
        damage,
        max(now_ms, orphans.producer_id_max + 1),
        _cluster_id(directory.path),
        [],
    )


def _make(data_dir: Path, made: Rebuilt, now_ms: int) -> Rebuilt:
    aside = aside_name(data_dir, now_ms)
    try:
        staged = stage(
            data_dir,
            made.plan,
            made.orphans,
            first_producer_id=made.first_producer_id,
            cluster_id=made.cluster_id,
            now_ms=now_ms,
        )
    except CatalogError as error:
        raise NotRebuilt(str(error)) from error
    return made._replace(aside=place(data_dir, staged, aside))


def _check_no_compactor(data_dir: Path, clock: Clock) -> None:
    """The lease that would tell is lost with the catalog; the status still does."""
    now_s = clock.now_ms() / 1000
    status = status_file.read(data_dir, CompactorStatus, now_s)
    if status is not None and status.state != "stopped" and _lives(status.pid):
        raise NotRebuilt(f"a compactor runs (process {status.pid}): stop it first")


def _check_all_there(warehouse: str) -> None:
    """A topic whose table nobody can look at would be none any more."""
    for name in further.names(warehouse):
        why = further.why_not(warehouse, name)
        if why is not None:
            link = further.link_of(warehouse, name)
            raise NotRebuilt(f"{why} If it is lost, delete the link {link} first")


def _lives(pid: int) -> bool:
    """One that has ended may stay in the list of processes for as long as nobody asks
    how: in a container, for ever."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except (psutil.Error, ValueError):
        return False


def _check_lost(data_dir: Path, *, is_forced: bool) -> None:
    """Raise NotRebuilt if there is a catalog that can be read, or that others can."""
    path = data_dir / NAME
    if is_forced or not path.exists():
        return
    try:
        with Catalog.open(path, read_only=True) as catalog:
            count = len(catalog.read(stored_topics.load))
            damage = catalog.read(
                lambda found: found.exec_driver_sql("PRAGMA quick_check(1)").scalar()
            )
    except CatalogTooNew as error:
        raise NotRebuilt(str(error)) from error
    except (CatalogError, SQLAlchemyError, ValueError) as error:
        if is_out_of_reach(error) or is_out_of_reach(error.__cause__ or error):
            raise NotRebuilt(
                f"{path} may be whole, and cannot be read by this process now: "
                f"{error}. --force makes a new one all the same, and keeps this aside"
            ) from error
        return
    if damage == "ok":
        raise NotRebuilt(
            f"{path} is a catalog that can be read, of {count} topics: nothing is to "
            "be made again. --force makes a new one all the same, and keeps this aside"
        )


def _cluster_id(data_dir: Path) -> str | None:
    """As the last broker said it; None: nothing says it, and there will be another."""
    try:
        said = json.loads(status_file.path_of(data_dir, BrokerStatus).read_bytes())
        found = said["cluster_id"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    is_one = isinstance(found, str) and 0 < len(found) <= 64 and found.isprintable()
    return found if is_one else None
