"""Having the broker let go of every file that the log has now.

The problem: what was erased from a table still stands in segments, and in files that
are written to again, behind what is written to them next; only the broker may touch
these. The idea: it is asked for new files (`broker.catalog.renewals`), everybody's
records are asked into their tables, since a segment holds all topics', and then the
broker's answer is waited for. It is not only believed: none of the files that were
there before may be there afterwards.

The price: topics that take no records into their tables keep their segments, and with
them what was erased; that is told, and it is tried again by asking again.
"""

import time
from pathlib import Path
from typing import Final

from broker.catalog import renewals
from broker.catalog.catalog import Catalog
from broker.status.file import read as read_status
from broker.status.schema import BrokerStatus
from broker.storage.places import damaged_names, places
from jobs.extent import Extents, NotInTime, Stuck

POLL_S: Final = 0.2


def broker_runs(data_dir: Path) -> bool:
    """Whether a broker serves this directory."""
    status = read_status(data_dir, BrokerStatus, time.time())
    return status is not None and status.state == "serving"


def renew(data_dir: Path, extents: Extents, timeout_s: float) -> list[str]:
    """Wait until no file of the log is left that is there now; sentences on what is,
    and why."""
    deadline = time.monotonic() + timeout_s
    before = places(str(data_dir / "wal"))
    with Catalog.open(data_dir / "catalog.db", upgrades=False) as catalog:
        now_ms = int(time.time() * 1000)
        number = catalog.change(lambda c: renewals.ask(c, now_ms))
        why = _compact(extents, timeout_s)
        while not catalog.read(lambda c: renewals.is_done(c, number)):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
    after = places(str(data_dir / "wal"))
    left = [name for name, file in before.items() if after.get(name) == file]
    found = []
    if left:
        found.append(
            f"segment files of before are still there ({', '.join(sorted(left)[:5])}"
            f"{' and more' if len(left) > 5 else ''}): "
            f"{why or 'the broker has not let them go'}"
        )
    found += [
        f"wal/{name} was put aside as damaged: delete it"
        for name in damaged_names(str(data_dir / "wal"))
    ]
    return found


def _compact(extents: Extents, timeout_s: float) -> str | None:
    """Ask all records into their tables; why some do not come."""
    try:
        extents.compact([], timeout_s)
    except (NotInTime, Stuck) as error:
        return str(error)
    return None
