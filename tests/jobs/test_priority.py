"""Niceness of a process and of its session, in processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from jobs.priority import AUTOGROUP, CAUTIOUS_NICENESS, may_restore

WORKER = """
import os
from jobs.priority import set_worker_niceness
for niceness in (15, 0):
    set_worker_niceness(niceness)
    print(os.getpriority(os.PRIO_PROCESS, 0))
"""
UNPRIVILEGED = """
import os, resource
from jobs.priority import set_worker_niceness
resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
if os.getuid() == 0:
    os.setuid(65534)
"""
SESSION = """
from jobs.priority import AUTOGROUP, set_session_niceness
print(set_session_niceness(7))
print((AUTOGROUP.read_text().split() or ["ungrouped"])[-1])
"""


def printed(program: str, own_session: bool = True) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=own_session,
        cwd=Path(__file__).parents[2],
    )
    return done.stdout.split()


@pytest.mark.skipif(not may_restore(), reason="not root, nor allowed to come back")
def test_a_worker_that_may_return_steps_back_as_far_as_it_is_to() -> None:
    assert printed(WORKER) == ["15", "0"]


def test_a_worker_that_may_not_return_steps_back_a_little() -> None:
    assert printed(UNPRIVILEGED + WORKER) == [str(CAUTIOUS_NICENESS)] * 2


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="the kernel groups no sessions")
def test_a_session_of_its_own_steps_back_as_a_whole() -> None:
    assert printed(SESSION) == ["True", "7"]


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="the kernel groups no sessions")
def test_a_session_of_somebody_else_is_left_alone() -> None:
    # a session from before the groups, as a container's first, is in none: no text
    before = (AUTOGROUP.read_text().split() or ["ungrouped"])[-1]
    assert printed(SESSION, own_session=False) == ["False", before]
