"""Whether a compactor may yet write of which nobody hears.

The problem: an erasure that holds a table goes by what the compactor says, in one file.
A compactor that hangs says nothing, and a second one of the same data directory says
its own. The idea: look for the processes, by their words and by the catalog that they
have open. One that began since the file was written has done nothing: it says something
first.

The price: one of another container, or of another user, is not seen.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

from broker.status.file import STALE_S, path_of
from broker.status.file import read as read_status
from broker.status.schema import CompactorStatus
from jobs.erasing.table import NotErased

CLOCKS_APART_S: Final = 0.02
CLOCK_TRIES: Final = 100
_PROGRAMS: Final = "lakelog", "broker.cli"
_WITH_TOPIC: Final = "compact", "erase", "table", "undelete"
"""Commands of ours, of a topic that may be called compactor."""


def check_all_heard(data_dir: Path) -> None:
    """Raise NotErased if a compactor lives whose status is not there: it, or its
    workers, may go on at any time with what they were at."""
    last = read_status(data_dir, CompactorStatus, 0)  # however old
    if last is None:
        return
    said_s = os.stat(path_of(data_dir, CompactorStatus)).st_mtime
    silent_s = time.time() - said_s
    for pid, own_number, began_s in _compactors(data_dir):
        is_last = own_number == last.pid
        is_heard = is_last and (silent_s <= STALE_S or last.state == "stopped")
        if not is_heard and began_s <= said_s:
            raise NotErased(_sentence(pid, silent_s))


def _sentence(pid: int, silent_s: float) -> str:
    if silent_s <= STALE_S:
        return (
            f"process {pid} is another compactor of this data directory, and may be at "
            "anything: stop it first, and ask again"
        )
    return (
        f"the compactor (process {pid}) has said nothing for {silent_s:.0f} s and has "
        "not ended, so it may yet write: let it go on, or kill it, and ask again"
    )


def _compactors(data_dir: Path) -> Iterator[tuple[int, int, float]]:
    """Of those of this data directory that live, the number, the one that each calls
    itself by, and since when. Who asks is none, whatever his words are; one that was
    killed and not reaped has neither words nor files."""
    catalog = os.stat(data_dir / "catalog.db")
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or not _is_compactor(process.cmdline()):
                continue
            if _has_open(process.pid, catalog):
                status = Path(f"/proc/{process.pid}/status").read_text()
                yield process.pid, _own_number(status), _began_s(process.pid)


def _is_compactor(command: Sequence[str]) -> bool:
    """Whether these may be the words of ``lakelog compactor``, which ``lakelog up``
    starts as a module. Rather one too many than one too few: a directory before the
    module may end as our name does."""
    for word, behind in pairwise(command):
        if os.path.basename(word) in _PROGRAMS and behind in _WITH_TOPIC:
            return False
        if word.endswith(_PROGRAMS) and behind == "compactor":
            return True
    return False


def _has_open(pid: int, file: os.stat_result) -> bool:
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            if os.path.samestat(one.stat(), file):
                return True
    return False


def _own_number(status: str) -> int:
    """Out of /proc/PID/status. In a container it has another one, which is the last."""
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:"))
    return int(numbers.split()[-1])


def _began_s(pid: int) -> float:
    """psutil's may be a second early, as it counts from a boot in whole seconds: one
    that was started anew right behind the last status would seem to be the old one."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return _boot_s() + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _boot_s() -> float:
    """When the machine began. A pause between the two clocks would put it too early, or
    too late: then both are read again."""
    for _ in range(CLOCK_TRIES):
        before_s = time.time()
        since_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        if abs(time.time() - before_s) <= CLOCKS_APART_S:
            break
    return before_s - since_s
