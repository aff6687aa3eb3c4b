"""Figures of a process, while it is there."""

import os
import subprocess
import sys

from admin_api.metrics.process import children, process


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


def begun(pid):
    return {
        (sample.name, sample.labels["program"]): sample.value
        for family in children("p", pid)
        for sample in family.samples
    }


def test_what_a_part_has_begun_is_counted_by_program():
    before = begun(os.getpid())
    assert len(before) == 6
    asleep = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(
        asleep, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        found = begun(os.getpid())
        child.stdin.close()
    count, memory = "p_children", "p_children_resident_memory_bytes"
    assert found[count, "python"] == before[count, "python"] + 1
    assert found[memory, "python"] > before[memory, "python"] + (1 << 20)
    assert found[count, "java"] == before[count, "java"]
    assert begun(child.pid) == {}
