"""What the system says of the processes: memory, CPU, open files."""

from collections.abc import Iterator
from contextlib import suppress

import psutil
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

PROGRAMS = ("java", "python", "other")
"""What children are told apart by: Spark's machine, and its workers."""


def process(prefix: str, pid: int) -> Iterator[Metric]:
    """Figures of a process; none of one that has gone or is another user's."""
    try:
        one = psutil.Process(pid)
        with one.oneshot():
            memory, cpu = one.memory_info(), one.cpu_times()
            files, threads = one.num_fds(), one.num_threads()
    except psutil.Error:
        return
    gauges = {
        "resident_memory_bytes": ("Memory of the process that is in RAM.", memory.rss),
        "open_fds": ("Files and sockets that are open.", files),
        "threads": ("Threads of the process.", threads),
    }
    for name, (sentence, value) in gauges.items():
        yield GaugeMetricFamily(f"{prefix}_process_{name}", sentence, float(value))
    yield CounterMetricFamily(
        f"{prefix}_process_cpu_seconds",
        "Processor time that the process took.",
        cpu.user + cpu.system,
    )


def children(prefix: str, pid: int) -> Iterator[Metric]:
    """How many processes a part has begun, and theirs, and the memory of these by
    program; none of a part that has gone. What several of them share is counted in
    each."""
    count = GaugeMetricFamily(
        f"{prefix}_children", "Processes that it has begun.", labels=["program"]
    )
    memory = GaugeMetricFamily(
        f"{prefix}_children_resident_memory_bytes",
        "Memory of the processes that it has begun that is in RAM.",
        labels=["program"],
    )
    try:
        found = psutil.Process(pid).children(recursive=True)
    except (psutil.Error, ValueError):
        return
    sums = dict.fromkeys(PROGRAMS, (0, 0))
    for one in found:
        with suppress(psutil.Error):  # it has ended meanwhile
            program, resident = _program_of(one), one.memory_info().rss
            number, total = sums[program]
            sums[program] = number + 1, total + resident
    for program, (number, total) in sums.items():
        count.add_metric([program], float(number))
        memory.add_metric([program], float(total))
    yield from (count, memory)


def _program_of(one: psutil.Process) -> str:
    name = one.name()
    return next((program for program in PROGRAMS if program in name), "other")
