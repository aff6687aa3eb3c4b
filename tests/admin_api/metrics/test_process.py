"""Figures of a process, while it is there."""

import os
import subprocess
import sys

from admin_api.metrics.process import process


def figures(pid):
    return {
        sample.name: sample.value
        for family in process("p", pid)
        for sample in family.samples
    }


def test_a_process_is_measured_and_one_that_has_gone_is_not():
    used = os.times()
    found = figures(os.getpid())
    assert found.keys() == {
        "p_process_resident_memory_bytes",
        "p_process_open_fds",
        "p_process_threads",
        "p_process_cpu_seconds_total",
    }
    assert found["p_process_resident_memory_bytes"] > 1 << 20
    assert found["p_process_cpu_seconds_total"] >= used.user + used.system
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert figures(gone.pid) == {}
