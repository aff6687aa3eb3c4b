"""Memory under mixed clients for an hour: ``make soak SECONDS=3600``.

A house with a compactor serves the actors of ``mixed_clients`` on 404 topics. Each
half minute it is noted what each process has in memory. In the end the broker's end
offsets must be what was acknowledged, to the record, and ``lakelog check`` must be
content: else the exit code is 1. The budget of the broker is 400 MB. Writes
``memory.csv``.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import psutil

from infra.bench.lake_house import MEGA, House, family
from infra.bench.mixed_clients import MONEY, Actor, Tally, actors, topics

LOOK_S = 30.0
BUDGET_MB = 400.0


class Look(NamedTuple):
    """Resident memory in MB, ``at_s`` seconds after the clients came."""

    at_s: float
    broker: float
    compactor: float


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    return parser.parse_args()


def main() -> int:
    given = arguments()
    house = House(given.out.absolute() / "mixed")
    house.start()
    try:
        tally, looks, wrong = run(house, given.seconds)
        wrong += differences(ends(house), tally)
        house.await_tables()
        if check(house):
            wrong.append("lakelog check is not content")
    finally:
        house.stop()
    lines = [",".join(f"{value:.0f}" for value in look) for look in looks]
    text = "\n".join(["at_s,broker_mb,compactor_mb", *lines])
    (given.out / "memory.csv").write_text(text + "\n")
    print(*summary(looks), f"acknowledged {tally.acknowledged.total():,}", sep="\n")
    print(*(f"{key}: {n:,}" for key, n in sorted(tally.read.items())), sep="\n")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


def run(house: House, seconds: float) -> tuple[Tally, list[Look], list[str]]:
    """What the clients did, what was in memory meanwhile, and what went wrong."""
    make_topics(house)
    tally, stop, wrong = Tally(), Event(), list[str]()

    def work(name: str, actor: Actor) -> None:
        try:
            actor(stop)
        except Exception as error:  # noqa: BLE001 of three libraries
            wrong.append(f"{name}: {error!r}")

    working = actors(house.address, tally)
    threads = [Thread(target=work, args=named) for named in working.items()]
    for thread in threads:
        thread.start()
    looks, began = [], time.monotonic()
    while (at_s := time.monotonic() - began) < seconds:
        looks.append(look(house, at_s))
        time.sleep(min(LOOK_S, seconds))
    stop.set()
    for thread in threads:
        thread.join(120)
        if thread.is_alive():
            wrong.append("an actor does not come to its end")
    return tally, looks, wrong


def make_topics(house: House) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": house.address})
    wanted = [NewTopic(name, count, 1) for name, count in topics().items()]
    for made in admin.create_topics(wanted).values():
        made.result(120)


def look(house: House, at_s: float) -> Look:
    pid = house.status("compactor").get("pid")
    compactor = family(pid) if pid else []
    return Look(at_s, house.resident_mb(), sum(map(_resident_mb, compactor)))


def _resident_mb(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss / MEGA)
    except psutil.Error:
        return 0.0


def ends(house: House) -> dict[str, int]:
    """The sum of each topic's end offsets; of transactions the markers count, too."""
    from confluent_kafka import Consumer, TopicPartition

    asking = Consumer({"bootstrap.servers": house.address, "group.id": "ends"})
    found = {
        name: sum(
            asking.get_watermark_offsets(TopicPartition(name, number), 20)[1]
            for number in range(partitions)
        )
        for name, partitions in topics().items()
    }
    asking.close()
    return found


def differences(found: dict[str, int], tally: Tally) -> list[str]:
    """Where ends are not what was acknowledged, in words, and what failed."""
    failed = [f"{topic}: {n} failed" for topic, n in tally.failed.items()]
    return failed + [
        f"{topic}: {tally.acknowledged[topic]} acknowledged, but it ends at {end}"
        for topic, end in found.items()
        if topic != MONEY and end != tally.acknowledged[topic]
    ]


def summary(looks: Sequence[Look]) -> Iterable[str]:
    """The broker's and the compactor's memory at the quarters, and at most."""
    for part in ("broker", "compactor"):
        sizes = [float(getattr(one, part)) for one in looks]
        quarters = [sizes[len(sizes) * n // 4 - (n == 4)] for n in range(5)]
        shown = ", ".join(f"{size:.0f}" for size in quarters)
        held = "" if part != "broker" else f"; goal at most {BUDGET_MB:.0f}"
        yield f"{part}, MB at each quarter: {shown}; most {max(sizes):.0f}{held}"


def check(house: House) -> int:
    """``lakelog check``; its exit code."""
    words = [sys.executable, "-m", "broker.cli", "check", "--data-dir", str(house.data)]
    return subprocess.run(words).returncode


if __name__ == "__main__":
    sys.exit(main())
