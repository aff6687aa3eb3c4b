"""Real flights through a running Lakelog: in, to a group, into Delta, SQL, and back.

Each step is told while it happens, and the last one is a proof: the whole topic, read
from the Parquet files after the write-ahead segments were released, has the very hashes
that the producer's acknowledgements had.
"""

import gc
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from infra.demo import clients, flights, queries, report
from infra.demo.fingerprint import Fingerprint
from infra.demo.lakelog import Running, ask
from infra.demo.quiet import output_into
from jobs.java import java_found

# a standard output of our own: what Spark's JVM writes to the other goes to the log
console = Console(file=os.fdopen(os.dup(1), "w"))
TABLE_TIMEOUT_S = 120.0


class Bar:
    """A progress bar over the records of the topic."""

    def __init__(self, title: str, total: int) -> None:
        columns = (
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
        )
        self._progress = Progress(*columns, console=console)
        self._task = self._progress.add_task(title, total=total)

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def to(self, done: int) -> None:
        self._progress.update(self._task, completed=done)


class TableWatch(threading.Thread):
    """Notes when which offsets stood in the table, for freshness."""

    def __init__(self, running: Running) -> None:
        super().__init__(daemon=True)
        self._running = running
        self.seen: list[tuple[float, dict[int, int]]] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        from lakehouse.location import table_path
        from lakehouse.log import delta_log

        path = table_path(self._running.tables, flights.TOPIC)
        while not delta_log.exists(path):
            if self.stopping.wait(0.1):
                return
        table = delta_log.load(path)
        while not self.stopping.is_set():
            ends = delta_log.table_ends(table)
            if ends and (not self.seen or self.seen[-1][1] != ends):
                self.seen.append((time.monotonic(), ends))
            self.stopping.wait(0.1)
            delta_log.follow(table)

    def total(self) -> int:
        return sum(self.seen[-1][1].values()) if self.seen else 0


def main() -> int:
    """Run the story; 0 if the proof holds."""
    if not java_found():
        console.print("Java 17 or newer is needed: Spark runs on it.")
        return 1
    gc.disable()  # a million small tuples, none of them garbage
    with tempfile.TemporaryDirectory(prefix="lakelog-demo-") as folder:
        home = Path(folder)
        console.print("[bold]1. Lakelog starts[/]")
        running = Running(home / "data", home / "log", "-X", "wal.keep_ms=0")
        try:
            holds = tour(running)
        except Exception:
            console.print((home / "log").read_text()[-4000:], markup=False)
            raise
        finally:
            running.stop()
    return 0 if holds else 1


def tour(running: Running) -> bool:
    """All steps in order; whether the records came back as they were."""
    figures = report.Figures()
    records = flights.load()
    figures.records = len(records)
    running.wait_ready()
    console.print(f"  ready after {running.ready_s:.1f} s: kafka={running.kafka}")
    running.wait_compactor()
    console.print(f"  compactor ready after {running.compactor_s:.1f} s")
    figures.ready_s, figures.compactor_s = running.ready_s, running.compactor_s
    partitions = str(flights.PARTITIONS)
    bootstrap = ["--bootstrap", running.kafka]
    ask("topic", "create", flights.TOPIC, "--partitions", partitions, *bootstrap)
    watch = TableWatch(running)
    watch.start()
    acknowledged = produce_and_read(running, records, figures)
    wait_for_table(watch, figures, acknowledged)
    show_queries(running)
    return prove(running, acknowledged, figures)


def produce_and_read(
    running: Running, records: list[flights.Flight], figures: report.Figures
) -> clients.Acknowledged:
    """Produce all flights while a group of two reads them."""
    console.print("[bold]2. Flights in, and to a consumer group while they arrive[/]")
    seen, lock = Fingerprint(), threading.Lock()
    group = [
        clients.GroupReader(running.kafka, flights.TOPIC, seen, lock) for _ in range(2)
    ]
    for member in group:
        member.start()
    for member in group:
        member.assigned.wait(30)
    started = time.monotonic()
    with Bar("acknowledged", len(records)) as bar:
        acknowledged = clients.produce(running.kafka, flights.TOPIC, records, bar.to)
    figures.produce_s = time.monotonic() - started
    figures.bytes_in = acknowledged.bytes
    with Bar("read by the group", len(records)) as bar:
        deadline = time.monotonic() + 60
        while seen.records < len(records) and time.monotonic() < deadline:
            time.sleep(0.05)
            bar.to(seen.records)
    figures.group_s = time.monotonic() - started
    for member in group:
        member.stopping.set()
    for member in group:
        member.join(10)
    check("the group read what was acknowledged", seen, acknowledged)
    return acknowledged


def wait_for_table(
    watch: TableWatch, figures: report.Figures, acknowledged: clients.Acknowledged
) -> None:
    """Until every acknowledged record stands in the Delta table."""
    console.print("[bold]3. Into the Delta table[/]")
    deadline = time.monotonic() + TABLE_TIMEOUT_S
    with Bar("in the table", figures.records) as bar:
        while watch.total() < figures.records:
            if time.monotonic() > deadline:
                raise RuntimeError("the records did not arrive in the table")
            time.sleep(0.05)
            bar.to(watch.total())
        bar.to(figures.records)
    watch.stopping.set()
    watch.join()
    figures.freshness_s = report.freshness(acknowledged.at, watch.seen)


def show_queries(running: Running) -> None:
    """Three Spark SQL answers over the table, in a Spark of our own."""
    from jobs.session import end_session, make_session

    console.print("[bold]4. Spark SQL over that table, by a Spark of our own[/]")
    path = running.table(flights.TOPIC)["path"]
    starting = "Spark starts (the first time it fetches Delta from Maven Central)"
    with console.status(starting), output_into(running.log):
        session = make_session("local[*]", "lakelog-demo", delta=True)
        try:
            answers = queries.ask(session, path)
        finally:
            end_session(session)
    for question, (columns, rows) in answers.items():
        table = Table(title=question, title_justify="left")
        for name in columns:
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(*map(str, row))
        console.print(table)


def prove(
    running: Running, acknowledged: clients.Acknowledged, figures: report.Figures
) -> bool:
    """Let the segments go, read all again out of the table, compare the hashes."""
    console.print("[bold]5. The write-ahead segments are released[/]")
    deadline = time.monotonic() + 60
    while any(p["segment_bytes"] for p in parts(running)):
        if time.monotonic() > deadline:
            raise RuntimeError("the segments were not released")
        time.sleep(0.5)
    console.print("  no segment holds a record of the topic any more")
    figures.table_bytes = report.size_of(Path(running.table(flights.TOPIC)["path"]))
    console.print("[bold]6. The whole topic again, now out of the Parquet files[/]")
    started = time.monotonic()
    with Bar("read from the table", figures.records) as bar:
        back = clients.read_all(
            running.kafka, flights.TOPIC, flights.PARTITIONS, bar.to
        )
    figures.cold_s = time.monotonic() - started
    holds = check("every record came back as it was produced", back, acknowledged)
    for number, digest in back.partitions().items():
        console.print(f"  partition {number}: {digest}")
    figures.print(console)
    return holds


def parts(running: Running) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = running.table(flights.TOPIC)["partitions"]
    return found


def check(claim: str, seen: Fingerprint, acknowledged: clients.Acknowledged) -> bool:
    """Say whether two fingerprints are equal; ends the demo if they are not."""
    wanted = acknowledged.fingerprint
    holds = seen.twice() == 0 and seen.partitions() == wanted.partitions()
    mark = "[green]yes[/]" if holds else "[red]NO[/]"
    console.print(f"  {claim}: {mark} ({seen.records:,} of {wanted.records:,})")
    if not holds:
        raise SystemExit(1)
    return holds


if __name__ == "__main__":
    # librdkafka's threads may outlive a failed step; leave with its code all the same
    code = main()
    sys.stdout.flush()
    console.file.flush()
    os._exit(code)
