"""What coordination and old clients cost, test by test: figures of one broker.

Transactions come from librdkafka in C; everything else from frames that are made here,
so that no client library is part of what is measured.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from infra.bench import raw_client, tools
from infra.bench.brokers import Measured
from infra.bench.goals import Goal, at_least, at_most, no_goal, of_kafka
from infra.bench.lake_house import wait_for
from infra.bench.old_messages import CODECS, message_set, next_offset
from infra.bench.raw_client import Connection, Member

Figures = dict[str, float]

DELAY_S = 3.0
"""``group.initial.rebalance.delay.ms`` of both brokers. Members that join meanwhile
prolong it once, within their own rebalance timeout, as Kafka's rule says."""

RECORD_BYTES = 100
TXN_PARTITIONS = 10
SET_BYTES = 900_000
LEADERS_S = 900.0
"""Apache Kafka makes some tens of partitions a second on a disk that others use."""
CPU_TICK_S = 0.01
"""In which the seconds of a process are counted."""
FETCH_BYTES = 1 << 20
OLD_VERSIONS = {0: (1, 1), 1: (2, 3)}
"""Magic -> the newest Produce and Fetch that have it."""


@dataclass(frozen=True)
class Sizes:
    """How much of each; ``--quick`` takes less."""

    txn_s: float = 5.0
    joining: int = 200
    beating: int = 2_000
    groups: int = 10
    beat_s: float = 3.0
    beats_s: float = 30.0
    topics: int = 1_000
    partitions: int = 10
    asked: int = 100
    old_s: float = 2.0
    old_lines: int = 200_000
    rounds: int = 3
    delay_s: float = DELAY_S

    def quick(self) -> "Sizes":
        return replace(self, txn_s=2.0, beats_s=9.0, asked=20, old_s=0.5, rounds=1)


@dataclass(frozen=True)
class Cost:
    """A test, the figures that are shown of it, and how often it runs for each."""

    run: Callable[[Measured], Figures]
    goals: dict[str, Goal]
    rounds: int
    warm: int = 1
    leaves_work: bool = False
    """Whether the compactor has to rest before another broker takes its turn."""


class CostBench:
    """The tests, by name, against whichever broker is handed in."""

    def __init__(self, binaries: Path, json_lines: Path, sizes: Sizes) -> None:
        self._bin, self._json, self._sizes = binaries, json_lines, sizes
        self._made: set[tuple[str, str]] = set()
        self._numbers = count(1)

    def beside_kafka(self) -> dict[str, Cost]:
        s, found = self._sizes, {}
        for parts in (1, 10):
            for clients in (1, 8):
                found[_transactions_name(parts, clients)] = Cost(
                    lambda b, p=parts, c=clients: self._transactions(b, p, c),
                    {
                        "txns/s": of_kafka(0.5),
                        "p99 ms": no_goal(),
                        "broker cpu ms/txn": no_goal(),
                    },
                    s.rounds,
                    leaves_work=True,
                )
        found[f"costs, {s.joining} members join"] = Cost(
            self._join, {"s past the delay": at_most(1.0)}, s.rounds
        )
        found[f"costs, heartbeats of {s.beating:,} members"] = Cost(
            self._beat, {"broker cpu % of a core": at_most(10.0)}, 1, warm=0
        )
        found[f"costs, Metadata of {s.topics * s.partitions:,} partitions"] = Cost(
            self._metadata, {"p50 ms": at_most(50.0), "p99 ms": at_most(50.0)}, s.rounds
        )
        return found

    def of_old_clients(self) -> dict[str, Cost]:
        """Apache Kafka 4 serves none of these."""
        goals, found = {"MB/s per core": at_least(100.0)}, {}
        for magic in (0, 1):
            for codec in CODECS:
                kind = f"magic {magic}, {codec}"
                found[f"costs, produce {kind}"] = Cost(
                    lambda b, m=magic, c=codec: self._produce_old(b, m, c),
                    goals, self._sizes.rounds,
                )  # fmt: skip
                found[f"costs, fetch {kind}"] = Cost(
                    lambda b, m=magic, c=codec: self._fetch_old(b, m, c),
                    goals, self._sizes.rounds,
                )  # fmt: skip
        return found

    def _transactions(self, broker: Measured, parts: int, clients: int) -> Figures:
        self._topic(broker, "costs-txn", TXN_PARTITIONS)
        name = f"costs-{next(self._numbers)}"
        before = broker.cpu_s()
        found = tools.run(
            self._bin, "transactions", broker.address, "costs-txn", TXN_PARTITIONS,
            parts, clients, RECORD_BYTES, self._sizes.txn_s, name,
        )  # fmt: skip
        used = broker.cpu_s() - before
        return {
            "txns/s": found["txns/s"],
            "p50 ms": found["p50"],
            "p99 ms": found["p99"],
            "broker cpu ms/txn": used / found["all"] * 1e3,
        }

    def _join(self, broker: Measured) -> Figures:
        group = f"costs-join-{next(self._numbers)}"

        async def join() -> float:
            async with _Crowd(broker.port, {group: self._sizes.joining}) as crowd:
                return await crowd.join()

        total = asyncio.run(join())
        return {"s": total, "s past the delay": total - 2 * self._sizes.delay_s}

    def _beat(self, broker: Measured) -> Figures:
        s, number = self._sizes, next(self._numbers)
        each = s.beating // s.groups
        groups = {f"costs-beat-{number}-{at}": each for at in range(s.groups)}

        async def beat() -> Figures:
            async with _Crowd(broker.port, groups) as crowd:
                joined_s = await crowd.join()
                await crowd.beat(s.beat_s, 2 * s.beat_s)
                before, begun = broker.cpu_s(), time.monotonic()
                beats = await crowd.beat(s.beat_s, s.beats_s)
                used, took = broker.cpu_s() - before, time.monotonic() - begun
            share = used / took * 100
            return {
                "broker cpu % of a core": share,
                "beats/s": beats / took,
                "joined s": joined_s,
            }

        return asyncio.run(beat())

    def _metadata(self, broker: Measured) -> Figures:
        s = self._sizes
        names = [f"costs-{number:04}" for number in range(s.topics)]
        self._topics(broker, names, s.partitions)

        async def ask() -> list[float]:
            connection, took = await Connection.open(broker.port), []
            for _ in range(s.asked):
                begun = time.monotonic()
                size = await raw_client.all_metadata(connection)
                took.append((time.monotonic() - begun) * 1e3)
                assert size > s.topics * s.partitions * 20, "not all are there"
            await connection.close()
            return sorted(took)

        before = broker.cpu_s()
        took = asyncio.run(ask())
        return {
            "p50 ms": took[len(took) // 2],
            "p99 ms": took[len(took) * 99 // 100],
            "broker cpu ms": (broker.cpu_s() - before) / len(took) * 1e3,
        }

    def _produce_old(self, broker: Measured, magic: int, codec: str) -> Figures:
        topic, version = f"old-{magic}-{codec}", OLD_VERSIONS[magic][0]
        self._topic(broker, topic, 1)
        with self._json.open("rb") as lines:
            values = [line.rstrip() for line in islice(lines, 10_000)]
        size = sum(map(len, values)) // len(values) + 26 + 8 * magic
        made, bare = message_set(values[: SET_BYTES // size], magic, codec)

        async def produce(connection: Connection) -> int:
            await raw_client.produce_old(connection, version, topic, made)
            return bare

        return self._of_a_core(broker, produce)

    def _fetch_old(self, broker: Measured, magic: int, codec: str) -> Figures:
        topic, version = f"new-{codec}", OLD_VERSIONS[magic][1]
        lines = self._sizes.old_lines
        if self._topic(broker, topic, 1):
            words = (broker.address, topic, 0, self._json, lines, codec, 5)
            tools.run(self._bin, "load", "lines", *words)
        with self._json.open("rb") as file:
            bare = sum(len(line) - 1 for line in islice(file, lines)) / lines
        bare, offset = bare + 26 + 8 * magic, 0

        async def fetch(connection: Connection) -> float:
            nonlocal offset
            if offset >= lines:
                offset = 0
            found = await raw_client.fetch_old(
                connection, version, topic, offset, FETCH_BYTES
            )
            begun, offset = offset, next_offset(found, offset)
            assert offset > begun, "a fetch finds messages"
            return (offset - begun) * bare

        return self._of_a_core(broker, fetch)

    def _of_a_core(self, broker: Measured, act: Callable) -> Figures:
        """Millions of bytes of bare messages by a second of the broker's CPU."""

        async def run() -> Figures:
            connection, total = await Connection.open(broker.port), 0.0
            before, begun = broker.cpu_s(), time.monotonic()
            while (took := time.monotonic() - begun) < self._sizes.old_s:
                total += await act(connection)
            used = broker.cpu_s() - before
            await connection.close()
            return {
                "MB/s per core": total / 1e6 / max(used, CPU_TICK_S),
                "MB/s": total / 1e6 / took,
            }

        return asyncio.run(run())

    def _topic(self, broker: Measured, name: str, partitions: int) -> bool:
        """Make a topic once; whether it was made now."""
        return self._topics(broker, [name], partitions)

    def _topics(self, broker: Measured, names: list[str], partitions: int) -> bool:
        from confluent_kafka.admin import AdminClient, NewTopic

        if (broker.name, names[0]) in self._made:
            return False
        admin = AdminClient({"bootstrap.servers": broker.address})
        for at in range(0, len(names), 100):
            some = [NewTopic(name, partitions, 1) for name in names[at : at + 100]]
            for made in admin.create_topics(some, operation_timeout=120).values():
                made.result(120)
        # Kafka answers before its new partitions are known and take records.
        wait_for(lambda: _have_leaders(admin, names, partitions), LEADERS_S, 0.5)
        self._made.add((broker.name, names[0]))
        return True


def _have_leaders(admin: Any, names: list[str], partitions: int) -> bool:
    known = admin.list_topics(timeout=30).topics
    return all(
        name in known
        and sum(one.leader >= 0 for one in known[name].partitions.values())
        == partitions
        for name in names
    )


def _transactions_name(partitions: int, clients: int) -> str:
    some = "1 client" if clients == 1 else f"{clients} clients"
    each = "1 partition" if partitions == 1 else f"{partitions} partitions"
    return f"costs, transactions of {each}, {some}"


class _Crowd:
    """Members of some groups, a connection each."""

    def __init__(self, port: int, groups: dict[str, int]) -> None:
        self._port, self._groups = port, groups
        self._connections: list[Connection] = []
        self._members: list[Member] = []

    async def __aenter__(self) -> "_Crowd":
        total = sum(self._groups.values())
        self._connections = await raw_client.open_many(self._port, total)
        free = iter(self._connections)
        for group, size in self._groups.items():
            await raw_client.find_coordinator(self._connections[0], group)
            self._members += [Member(one, group) for one in islice(free, size)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections:
            await connection.close()

    async def join(self) -> float:
        """Seconds from the first JoinGroup to the last answer of SyncGroup."""
        begun = time.monotonic()
        await asyncio.gather(*(member.join() for member in self._members))
        return time.monotonic() - begun

    async def beat(self, every_s: float, for_s: float) -> int:
        """All of them, spread over the interval; how many beats were answered."""
        begun, size = time.monotonic(), len(self._members)

        async def beats(number: int, member: Member) -> int:
            sent = 0
            while (at := every_s * (number / size + sent)) < for_s:
                await asyncio.sleep(begun + at - time.monotonic())
                await member.beat()
                sent += 1
            return sent

        each = (beats(*numbered) for numbered in enumerate(self._members))
        return sum(await asyncio.gather(*each))
