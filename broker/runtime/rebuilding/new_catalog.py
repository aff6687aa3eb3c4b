"""A new catalog in the place of one that is lost, whole or not at all.

The problem: whoever is killed in the middle must leave either what was there or all of
the new, and a catalog of SQLite is up to three files, of which an old log beside a new
file would be played into it. The idea: the new one is made under another name, closed,
so that it is one file, and synced; then what was there moves aside, the file before its
log; and then the new one gets its name. Killed in between there is no catalog, and a
broker does not start without one where there are records (`broker.catalog.missing`).
Nothing is deleted but what an earlier try left under the other name. What it had begun
to move aside is moved on under the same name: a log belongs to its file.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from broker.catalog import producers, topics, transactions
from broker.catalog.catalog import Catalog
from broker.failpoints import passing
from broker.runtime.rebuilding.orphans import Ended
from broker.runtime.rebuilding.plan import Plan
from broker.transactions.snapshot import encode

NAME: Final = "catalog.db"
STAGED: Final = "catalog.db.rebuilding"
_PARTS: Final = ("", "-wal", "-shm", "-journal")
_ASIDE: Final = re.compile(rf"{re.escape(NAME)}\.lost-(\d+)")


def aside_name(data_dir: Path, now_ms: int) -> str:
    """What the names begin with that lost files get. To be asked before `stage`, which
    deletes what tells that an earlier try was killed."""
    is_begun = (data_dir / STAGED).exists() and not (data_dir / NAME).exists()
    left = [part for part in _PARTS if (data_dir / f"{NAME}{part}").exists()]
    earlier = [found for path in data_dir.iterdir()
               if (found := _ASIDE.fullmatch(path.name))]  # fmt: skip
    if is_begun and left and earlier:
        name = max(earlier, key=lambda found: int(found[1]))[0]
        if not any((data_dir / f"{name}{part}").exists() for part in left):
            return name
    return f"{NAME}.lost-{now_ms}"


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
        for topic, starts, _, is_deleted, created_ms in plan.topics:
            deleted_ms = now_ms if is_deleted else None
            topics.restore(connection, topic, created_ms or now_ms, deleted_ms)
            found = {topic.key(index): start for index, start in starts.items()}
            topics.set_log_start(connection, found)
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
    for part in _PARTS:
        old, target = data_dir / f"{NAME}{part}", data_dir / f"{aside}{part}"
        if old.exists():
            os.rename(old, target)
            passing("rebuild.part_aside")
    _sync(data_dir)
    passing("rebuild.aside")
    os.rename(staged, data_dir / NAME)
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
