"""What the system says of the processes: memory, CPU, open files."""

from collections.abc import Iterator

import psutil
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


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
