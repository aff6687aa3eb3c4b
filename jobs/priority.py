"""A lower place for the compactor in the kernel's queue, and the way back.

The problem: niceness alone does nothing between a broker and a compactor that
`lakelog up` starts as sessions of their own, where Linux groups the tasks of a session
(autogroup): the groups share the processor equally, whatever is nice inside. And where
there are no such groups (inside a container's cgroup) niceness is all there is, but
only root may take it back. The idea: both. The session's niceness, which its owner may
lower again, if the session is the compactor's own; and the workers', each set by the
task that it runs.

Source: sched(7), "The autogroup feature"; setpriority(2).
"""

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

AUTOGROUP: Final = Path("/proc/self/autogroup")
CAUTIOUS_NICENESS: Final = 5
"""For a worker that could not come back: a quarter of the processor at least."""
_NO_LIMIT: Final = 20


def may_restore() -> bool:
    """Whether a process of ours may lower its niceness to 0 again."""
    allowed = resource.getrlimit(resource.RLIMIT_NICE)[0]
    return (
        os.geteuid() == 0 or allowed >= _NO_LIMIT or allowed == resource.RLIM_INFINITY
    )


def set_session_niceness(niceness: int) -> bool:
    """Set the niceness of this process's session; False if it is not its own.

    Raises nothing: a kernel without such groups has nothing to set.
    """
    if os.getsid(0) != os.getpid():
        return False
    with suppress(OSError):  # not there, or asked more often than ten times a second
        AUTOGROUP.write_text(str(niceness))
        return True
    return False


def set_worker_niceness(niceness: int) -> None:
    """Set the niceness of this process, as far as it may."""
    wanted = niceness if may_restore() else min(niceness, CAUTIOUS_NICENESS)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, wanted)
