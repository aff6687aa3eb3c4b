"""What is measured of the lake, test by test: rows (measure, figure, value, target).

A house of its own for each test, so that one does not feel the other. ``MB`` are
millions of bytes *of log*: record batches as they stand in segments, headers included.
"""

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from infra.bench import tools
from infra.bench.bare_disk import paced_syncs
from infra.bench.lake_fetch import Fetcher
from infra.bench.lake_flow import freshness
from infra.bench.lake_house import MEGA, House, WorkerMemory, cpu_s, wait_for

LINGER_MS = 5
PARTITIONS = 4
MERGED_PARTS = 17
"""Each a file of one size, so many that they become one."""
FIRST_BYTES = 200
"""Fetches at random offsets: two of them are slower than the p99."""


@dataclass(frozen=True)
class Sizes:
    """How much of each; ``--quick`` takes less."""

    backlog_mb: int = 1_000
    wal_mb: int = 2_000
    flow_s: float = 60.0
    paced_s: int = 10
    disk_mb: int = 160
    rounds: int = 3
    parts: int = MERGED_PARTS

    def quick(self) -> "Sizes":
        return Sizes(150, 400, 15.0, 3, 32, 1, 2)


@dataclass(frozen=True)
class Row:
    """One figure; ``target`` as people read it, "" for none."""

    measure: str
    figure: str
    value: float
    target: str = ""


class LakeBench:
    """The tests, by name; each yields its rows as they are found."""

    def __init__(self, out: Path, json_lines: Path, sizes: Sizes) -> None:
        self._out, self._json, self._sizes = out, json_lines, sizes

    def tests(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {
            "compaction JSON": lambda: self._compaction("JSON", self._lines("none")),
            "compaction lz4": lambda: self._compaction(
                "JSON, lz4", self._lines("lz4"), ">= 130"
            ),
            "compaction zstd": lambda: self._compaction(
                "JSON, zstd", self._lines("zstd"), ">= 120"
            ),
            "compaction 1 kB": lambda: self._compaction("1 kB", self._bulk(1000)),
            "freshness": self._freshness,
            "cold": self._cold,
            "recovery": self._recovery,
            "idle": self._idle,
            "disk": self._disk,
        }

    @contextmanager
    def _house(self, *settings: str, compactor: bool = True) -> Iterator[House]:
        house = House(self._out / "lake", *settings)
        house.start(compactor=compactor)
        try:
            yield house
        finally:
            house.stop()

    def _lines(self, codec: str) -> Callable[[House, float], None]:
        def produce(house: House, megabytes: float) -> None:
            count = int(megabytes * MEGA / 170)
            words = (house.address, "t", -1, self._json, count, codec, LINGER_MS)
            tools.run(self._out, "load", "lines", *words)

        return produce

    def _bulk(self, size: int) -> Callable[[House, float], None]:
        def produce(house: House, megabytes: float) -> None:
            count = int(megabytes * MEGA / size)
            words = (house.address, "t", -1, size, count, "none", LINGER_MS)
            tools.run(self._out, "load", "produce", *words)

        return produce

    def _compaction(
        self,
        kind: str,
        produce: Callable[[House, float], None],
        target: str = ">= 200",
    ) -> Iterator[Row]:
        """A backlog, a quiet broker, and then the compactor."""
        name, memory = f"compaction, {kind}", WorkerMemory()
        with self._house(compactor=False) as house:
            house.make_topic("t", PARTITIONS)
            produce(house, self._sizes.backlog_mb)
            compactor = house.start_compactor()
            try:
                with memory.watch(compactor.pid):
                    cpu = cpu_s(compactor.pid)
                    house.await_tables()
                    used = cpu_s(compactor.pid) - cpu
                time.sleep(1.5)  # the status file is written each second
                counts = house.status("compactor")["counters"]
            finally:
                compactor.terminate()
                compactor.wait(30)
        log_mb = counts["log_bytes_total"] / MEGA
        took = counts["rounds_ms_total"] / 1e3
        cores = os.cpu_count() or 1
        yield Row(name, "log MB/s per core, by the clock", log_mb / took / cores)
        yield Row(name, "log MB per CPU second", log_mb / used, target)
        yield Row(name, "workers at most MB, one", memory.one, "bounded")
        yield Row(name, "workers at most MB, all", memory.all, "bounded")

    def _freshness(self) -> Iterator[Row]:
        topics = [f"flow-{number}" for number in range(10)]
        with self._house() as house:
            for topic in topics:
                house.make_topic(topic, 1)
            cpu = cpu_s(house.pid("compactor"))
            found = freshness(house, topics, self._json, 20.0, self._sizes.flow_s)
            used = cpu_s(house.pid("compactor")) - cpu
        name = "freshness at 20 MB/s, 10 topics"
        yield Row(name, "p50 s", _quantile(found, 0.5), "<= 2.5")
        yield Row(name, "p99 s", _quantile(found, 0.99), "<= 5")
        yield Row(name, "max s", found[-1])
        yield Row(name, "compactor cores", used / self._sizes.flow_s)

    def _cold(self) -> Iterator[Row]:
        """Everything out of tables: speed, first bytes, and who else feels it."""
        with self._house("wal.cache_bytes=0") as house:
            house.make_topic("t", 1)
            house.make_topic("paced", 1)
            count = self._cold_topic(house)
            house.stop()
            house.start()  # nothing is cached, and nothing is loaded
            yield from self._first_bytes(house, count)
            yield from self._cold_speed(house, count)
            yield from self._beside(house, count)

    def _cold_topic(self, house: House) -> int:
        count = int(self._sizes.backlog_mb * MEGA / 170)
        words = (house.address, "t", 0, self._json, count, "none", LINGER_MS)
        tools.run(self._out, "load", "lines", *words)
        house.await_tables()
        house.await_release()
        return count

    def _first_bytes(self, house: House, count: int) -> Iterator[Row]:
        fetcher, chance = Fetcher(house.port), random.Random(1)
        first, _ = fetcher.fetch_ms("t", 0, 0)
        offsets = [chance.randrange(count) for _ in range(FIRST_BYTES)]
        found = sorted(fetcher.fetch_ms("t", 0, offset)[0] for offset in offsets)
        fetcher.close()
        yield Row("cold fetch", "first bytes ms, right after the start", first)
        yield Row("cold fetch", "first bytes ms, p50", _quantile(found, 0.5))
        yield Row("cold fetch", "first bytes ms, p99", _quantile(found, 0.99), "<= 20")
        yield Row("cold fetch", "first bytes ms, max", found[-1])

    def _cold_speed(self, house: House, count: int) -> Iterator[Row]:
        speeds, cpu = [], cpu_s(house.pid("broker"))
        sent = _bytes_out(house)
        for _ in range(self._sizes.rounds):
            begun = time.monotonic()
            tools.run(self._out, "load", "consume", house.address, "t", 0, count, 1)
            took, before = time.monotonic() - begun, sent
            sent = _bytes_out(house)
            speeds.append((sent - before) / took / MEGA)
        used = cpu_s(house.pid("broker")) - cpu
        total = self._sizes.rounds * count * 170 / MEGA
        yield Row("cold fetch", "log MB/s", median(speeds), ">= 500")
        yield Row("cold fetch", "broker CPU s per GB", used / total * 1e3)

    def _beside(self, house: House, count: int) -> Iterator[Row]:
        """A paced producer, alone and beside a consumer that reads cold, by turns."""
        paced_s = self._sizes.paced_s
        for rate, pace in ((200, "200/s"), (20_000, "20 MB/s")):
            words = (house.address, "paced", 0, 1000, rate, paced_s)
            bare, alone, beside = [], [], []
            for _ in range(self._sizes.rounds):
                if rate == 200:
                    syncs = paced_syncs(self._out, rate, paced_s)
                    bare.append(_quantile(syncs, 0.99))
                alone.append(tools.run(self._out, "load", "paced", *words)["p99"])
                with self._reading(house, count):
                    beside.append(tools.run(self._out, "load", "paced", *words)["p99"])
            name = f"acknowledgement at {pace}"
            if bare:
                yield Row(name, "p99 ms, a bare write and sync", median(bare))
            yield Row(name, "p99 ms, alone", median(alone))
            yield Row(name, "p99 ms, beside a cold reader", median(beside))
            yield Row(name, "ratio", median(beside) / median(alone), "<= 2")

    @contextmanager
    def _reading(self, house: House, count: int) -> Iterator[None]:
        """A consumer that begins again whenever it has read all."""
        words = [self._out / "load", "consume", house.address, "t", 0, count, 1]
        line = " ".join(map(str, words))
        loop = subprocess.Popen(
            ["sh", "-c", f"while {line}; do :; done"],
            stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            yield
        finally:
            subprocess.run(["kill", "--", f"-{loop.pid}"], check=False)
            loop.wait()

    def _recovery(self) -> Iterator[Row]:
        with self._house(compactor=False) as house:
            house.make_topic("t", PARTITIONS)
            self._bulk(1000)(house, self._sizes.wal_mb)
            time.sleep(1.5)  # the status file is written each second
            size = house.wal_bytes()
            house.kill()
            took = house.start(compactor=False)
        yield Row("after kill -9", "GB of segments", size / 1e9)
        yield Row("after kill -9", "ready s", took, "<= 2 + GB / 0.5")
        yield Row("after kill -9", "MB/s", size / took / MEGA, ">= 500")

    def _idle(self) -> Iterator[Row]:
        with self._house("wal.keep_ms=1000", "wal.cache_bytes=0") as house:
            house.make_topic("t", PARTITIONS)
            self._lines("none")(house, 50)
            house.await_tables()
            house.await_release()
            house.stop()
            ready = house.start()
            time.sleep(5)
            idle = house.resident_mb()
        yield Row("start", "ready s", ready, "<= 2")
        yield Row("memory of the broker", "MB, idle, with tables", idle, "<= 200")

    def _disk(self) -> Iterator[Row]:
        """Values against the tables that they become: merged, where there are files
        enough for that."""
        merged = self._sizes.parts >= MERGED_PARTS
        with self._house() as house:
            sizes = dict.fromkeys(("flights", "json", "random"), 0)
            for topic in sizes:
                house.make_topic(topic, 1)
            for part in zip(*self._disk_parts(), strict=True):
                for topic, values in zip(sizes, part, strict=True):
                    sizes[topic] += self._put(house, topic, values)
                house.await_tables()
            if merged:
                house.await_merges(len(sizes))
            for topic, target in zip(sizes, ("", "<= 0.25", ""), strict=True):
                ratio = house.table_bytes(topic) / sizes[topic]
                name = f"table of {topic}, {'merged' if merged else 'not merged'}"
                yield Row(name, "bytes per byte of values", ratio, target)

    def _disk_parts(self) -> Iterator[list[bytes]]:
        """Of each topic the files of values, a value a line, one for each part: flights
        and JSON that does not repeat itself; and bytes by chance."""
        from infra.demo.flights import load

        size = int(self._sizes.disk_mb * MEGA)
        with self._json.open("rb") as lines:
            json = lines.read(size).splitlines()[:-1]
        chance = random.Random(1)
        by_chance = [chance.randbytes(1000) for _ in range(size // 1000)]
        for values in (
            [flight.value for flight in load()],
            json,
            [value.replace(b"\n", b"\r") for value in by_chance],
        ):
            yield _parts(values, self._sizes.parts)

    def _put(self, house: House, topic: str, lines: bytes) -> int:
        """Produce each line as a value; their bytes."""
        file = self._out / "part"
        file.write_bytes(lines)
        count = lines.count(b"\n")
        words = (house.address, topic, 0, file, count, "lz4", LINGER_MS)
        tools.run(self._out, "load", "lines", *words)
        return len(lines) - count


def _parts(values: list[bytes], count: int) -> list[bytes]:
    """Values as lines, in so many files."""
    step = -(-len(values) // count)
    starts = range(0, step * count, step)
    return [b"\n".join(values[at : at + step]) + b"\n" for at in starts]


def _bytes_out(house: House) -> int:
    """What the broker has sent in answers to fetches, of its newest status."""
    begun = house.status("broker")["written_ms"]
    wait_for(lambda: house.status("broker").get("written_ms", 0) > begun, 10)
    return int(house.status("broker")["counters"]["bytes_out_total"])


def _quantile(ascending: list[float], q: float) -> float:
    return ascending[int((len(ascending) - 1) * q)]
