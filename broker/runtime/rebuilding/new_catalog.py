"""A new catalog in the place of one that is lost, whole or not at all.

The problem: whoever is killed in the middle must leave either what was there or all of
the new, and a catalog of SQLite is up to three files, of which an old log beside a new
file would be played into it. The idea: the new one is made under another name, closed,
so that it is one file, and synced; then it gets a name that says under which one what
was there moves aside, the file before its log; and then its own. Killed in between
there is no catalog, and a broker does not start without one where there are records
(`broker.catalog.missing`). Nothing is deleted but what an earlier try made. What it had
begun to move aside is moved on under the same name: a log belongs to its file, and to
none that was kept before, into which SQLite would play it.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from broker.catalog import producers, released_ends, topics, transactions
from broker.catalog.catalog import Catalog
from broker.failpoints import passing
from broker.runtime.rebuilding.orphans import Ended
from broker.runtime.rebuilding.plan import Plan
from broker.transactions.snapshot import encode

NAME: Final = "catalog.db"
STAGED: Final = "catalog.db.rebuilding"
_PARTS: Final = ("", "-wal", "-shm", "-journal")
_READY: Final = ".new"
_BEGUN: Final = re.compile(rf"({re.escape(NAME)}\.lost-\d+){re.escape(_READY)}")
"""The new catalog, while what was there moves to this name."""


def aside_name(data_dir: Path, now_ms: int) -> str:
    """What the names begin with that lost files get: those that an earlier try, which
    was killed, had begun to give them."""
    left = [part for part in _PARTS if (data_dir / f"{NAME}{part}").exists()]
    for name in _begun(data_dir):
        if not any((data_dir / f"{name}{part}").exists() for part in left):
            return name
    return f"{NAME}.lost-{now_ms}"


def _begun(data_dir: Path) -> list[str]:
    found = (_BEGUN.fullmatch(path.name) for path in data_dir.iterdir())
    return [one[1] for one in found if one]


def stage(
    data_dir: Path,
    plan: Plan,
    orphans: list[Ended],
    *,
    first_producer_id: int,
    cluster_id: str | None,
    now_ms: int,
) -> Path:
    """Make the new catalog beside its place, durably; its path. Blocks. Raises OSError
    and CatalogError."""
    path = data_dir / STAGED
    for part in _PARTS:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{part}")
    with Catalog.open(path, cluster_id=cluster_id) as catalog:
        catalog.change(_filled(plan, orphans, first_producer_id, now_ms))
    passing("rebuild.staged")
    left = [part for part in _PARTS[1:] if os.path.exists(f"{path}{part}")]
    if left:
        raise OSError(f"{path} is not one file: {', '.join(left)} did not go")
    _sync(path)
    passing("rebuild.synced")
    return path


def _filled(
    plan: Plan, orphans: list[Ended], first_producer_id: int, now_ms: int
) -> Callable[[Connection], None]:
    def fill(connection: Connection) -> None:
        for topic, starts, ends, is_deleted, created_ms in plan.topics:
            deleted_ms = now_ms if is_deleted else None
            topics.restore(connection, topic, created_ms or now_ms, deleted_ms)
            found = {topic.key(index): start for index, start in starts.items()}
            topics.set_log_start(connection, found)
            found = {topic.key(index): end for index, end in ends.items()}
            released_ends.raise_to(connection, found)
        topics.use_up_numbers(connection, plan.last_number)
        producers.begin_at(connection, first_producer_id)
        for one in orphans:
            value = encode(one.metadata)
            transactions.store(connection, one.transactional_id, value)
        passing("rebuild.filled")

    return fill


def place(data_dir: Path, staged: Path, aside: str) -> list[Path]:
    """Move what is in the catalog's place to names that begin with ``aside``, and the
    staged one there; what lies under these names. Durable when this returns. Raises
    OSError."""
    ready = data_dir / f"{aside}{_READY}"
    os.rename(staged, ready)
    for name in _begun(data_dir):
        if name != aside:
            os.unlink(data_dir / f"{name}{_READY}")
    _sync(data_dir)
    passing("rebuild.ready")
    for part in _PARTS:
        old, target = data_dir / f"{NAME}{part}", data_dir / f"{aside}{part}"
        if old.exists():
            os.rename(old, target)
            passing("rebuild.part_aside")
    _sync(data_dir)
    passing("rebuild.aside")
    os.rename(ready, data_dir / NAME)
    passing("rebuild.placed")
    _sync(data_dir)
    found = [data_dir / f"{aside}{part}" for part in _PARTS]
    return [path for path in found if path.exists()]


def _sync(path: Path) -> None:
    """Sync a file or a directory."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
