"""One story: real processes, what goes wrong, an end in peace, and the judge.

A broker, a compactor, and participants in slots: whoever dies in a slot is followed by
another life with the same transactional id. The seed decides what each participant does
and where it dies, when the broker is killed, who gets a rival, who is stopped for a
while. What then meets what is the machine's affair: a seed repeats decisions, not runs.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.crash.house import House
from tests.crash.workload import QUICK, create_topic
from tests.semantics.consumers import PROCESSORS, SINK, SOURCE, Reader
from tests.semantics.history import Recorder, read
from tests.semantics.judge import Judge
from tests.semantics.producers import kills_path
from tests.simulation.model import Violation
from tests.support.patience import IDLE_S, Patience, wait_until

SEEDS = int(os.environ.get("LAKELOG_SEMANTICS_SEEDS", "5"))
FIRST = int(os.environ.get("LAKELOG_SEMANTICS_FIRST", "1"))
"""Of the long forms."""
Cast = tuple[tuple[str, str], ...]
"""Of each slot: what is there, and the first letter of its name."""
SLOTS: Cast = (
    ("writer", "w"), ("writer", "w"),
    ("transactor", "t"), ("transactor", "t"), ("transactor", "t"),
    ("processor", "p"), ("processor", "p"),
    ("member", "m"), ("member", "m"),
    ("readers", "r"),
)  # fmt: skip
WITH_IDS = ("transactor", "processor")
PARTITIONS = 3
AT_ITS_END = {"fetch.wait.max.ms": 20}
"""Whoever asks on one connection is answered in turn: behind a Fetch that waits for
records of which there will be none."""
TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""How who was asked to go before it listened for that has ended: another, a JVM."""
BYTES_OF_SOME = 4_000
"""Of lines about a handful of transactions."""


@dataclass
class Slot:
    """Who is there, one life after the other; at times two at once."""

    kind: str
    name: str
    lives: int = 0
    living: list["subprocess.Popen[bytes]"] = field(default_factory=list)


class Story:
    """``seconds`` in which things go wrong, ``kills`` of the broker among them."""

    cast: ClassVar[Cast] = SLOTS

    def __init__(
        self, house: House, directory: Path, seed: int, seconds: float, kills: int
    ) -> None:
        self.house, self.directory, self.seed = house, directory, seed
        self.seconds, self.kills = seconds, kills
        self.chance = random.Random(f"story {seed}")
        self.judge = Judge(PARTITIONS)
        self.slots = [
            Slot(kind, f"{letter}{number}")
            for number, (kind, letter) in enumerate(self.cast)
        ]
        self.counts: dict[str, int] = {}
        """How often something was done to somebody."""
        self._calm = False
        self._log = directory / "participants.log"
        self._history = Recorder(kills_path(directory), "story")

    def tell(self) -> None:
        """All of it. Raises Violation; that it does not go on is one as well."""
        stuck: AssertionError | None = None
        try:
            self.house.start()
            create_topic(self.house.broker.bootstrap, SINK, PARTITIONS)
            self.house.compactor.start()
            self._live()
            self._end_in_peace()
            self._look()
        except AssertionError as error:
            stuck = error
        finally:
            self._kill_everybody()
        self.judge.hear(read(self.directory.glob("*.jsonl")))
        if stuck is not None:
            raise Violation(f"it does not go on: {stuck}") from stuck
        self.judge.is_exactly_once()
        self._hold_against_the_table()

    def _kill_everybody(self) -> None:
        for slot in self.slots:
            for process in slot.living:
                process.kill()
                process.wait()

    # while things go wrong

    def _live(self) -> None:
        for pause_s, what in self._plan():
            self._until(pause_s)
            self._until_something_happened()
            what()
        self._until_something_happened()
        self._until_a_member_committed()

    def _plan(self) -> list[tuple[float, Callable[[], None]]]:
        """What is done, and how long after the thing before."""
        chance, seconds = self.chance, self.seconds
        deeds = [self._kill_broker] * self.kills
        deeds += [self._kill_somebody] * int(seconds / 4)
        deeds += [self._bring_rival] * int(seconds / 5)
        deeds += [self._stop_somebody] * int(seconds / 7)
        at = sorted((chance.uniform(0, seconds), n) for n in range(len(deeds)))
        chance.shuffle(deeds)
        plan, last = [], 0.0
        for (when, _), deed in zip(at, deeds, strict=True):
            plan.append((when - last, deed))
            last = when
        return plan

    def _kill_broker(self) -> None:
        self._count("kills of the broker")
        self._history.note("kills")
        self.house.broker.kill()
        self._until(self.chance.uniform(0, 0.5))
        self.house.broker.start()
        self._history.note("runs")

    def _kill_somebody(self) -> None:
        slot = self.chance.choice(self.slots[:-1])
        for process in slot.living[:1]:
            self._count(f"kills of a {slot.kind}")
            process.kill()

    def _bring_rival(self) -> None:
        """A second instance of an id, which fences the first."""
        slot = self.chance.choice([s for s in self.slots if s.kind in WITH_IDS])
        self._count(f"rivals of a {slot.kind}")
        self._start(slot)

    def _stop_somebody(self) -> None:
        """One sleeps while another takes its place, and goes on as if it had not."""
        slot = self.chance.choice([s for s in self.slots if s.kind in WITH_IDS])
        for process in slot.living[:1]:
            self._count(f"{slot.kind}s that slept")
            process.send_signal(signal.SIGSTOP)
            self._start(slot)
            self._until(self.chance.uniform(0.5, 2.0))
            process.send_signal(signal.SIGCONT)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _until(self, seconds: float) -> None:
        """Let time pass; whoever died is followed by the next."""
        end = time.monotonic() + seconds
        while True:
            self._supervise(self.slots)
            if time.monotonic() >= end:
                return
            time.sleep(0.05)

    def _until_something_happened(self) -> None:
        """Until some transactions went on, however slow the machine is."""
        before, patience = self._written(), Patience()
        while (now := self._written()) < before + BYTES_OF_SOME:
            assert patience.lasts(now), "no transaction goes on"
            self._until(0.05)

    def _until_a_member_committed(self) -> None:
        """A short story may be over before the group had a quiet moment."""
        patience = Patience()
        while b'"what": "committed"' not in (said := self._said("member")):
            assert patience.lasts(len(said)), "no member commits"
            self._until(0.05)

    def _written(self) -> int:
        """The size of the histories of who makes transactions."""
        return sum(path.stat().st_size for path in self._histories(*WITH_IDS))

    def _said(self, kind: str) -> bytes:
        return b"".join(path.read_bytes() for path in self._histories(kind))

    def _histories(self, *kinds: str) -> list[Path]:
        names = [slot.name for slot in self.slots if slot.kind in kinds]
        paths = self.directory.glob("*.jsonl")
        return [path for path in paths if path.name.split(".")[0] in names]

    # participants

    def _supervise(self, slots: list[Slot]) -> None:
        for slot in slots:
            self._bury(slot)
            if not slot.living:
                self._start(slot)

    def _bury(self, slot: Slot) -> None:
        for process in [one for one in slot.living if one.poll() is not None]:
            slot.living.remove(process)
            asked = self._calm and process.returncode in TERMINATED
            if not asked and process.returncode not in (0, -signal.SIGKILL):
                said = self._log.read_text(errors="replace")[-3000:]
                raise Violation(f"{slot.name} ended with {process.returncode}: {said}")

    def _start(self, slot: Slot, *, only_begins: bool = False) -> None:
        slot.lives += 1
        name = f"{slot.name}.{slot.lives}"
        plan: dict[str, Any] = {
            "kind": slot.kind,
            "name": name,
            "id": slot.name,
            "seed": self.seed,
            "bootstrap": self.house.broker.bootstrap,
            "partitions": PARTITIONS,
            "history": str(self.directory / f"{name}.jsonl"),
            "calm": self._calm,
            "only_begins": only_begins,
        }
        with self._log.open("ab") as log:
            slot.living.append(subprocess.Popen(self._command(plan), stderr=log))

    def _command(self, plan: dict[str, Any]) -> list[str]:
        """What starts this participant."""
        return [sys.executable, "-m", "tests.semantics", json.dumps(plan)]

    # the end

    def _end_in_peace(self) -> None:
        """Nothing goes wrong any more; what is open is ended, what is left is done.

        By lives that began in peace: one that dies leaves the others of its group to
        wait for the end of its session.
        """
        self._calm = True
        processors = [slot for slot in self.slots if slot.kind == "processor"]
        self._stop(self.slots)
        self._abort_what_is_open(self.slots)
        self._catch_up(processors)
        self._stop(processors)
        self._abort_what_is_open(processors)

    def _stop(self, slots: list[Slot]) -> None:
        for slot in slots:
            for process in slot.living:
                process.terminate()
        self._gone(slots)

    def _gone(self, slots: list[Slot]) -> None:
        def nobody() -> bool:
            for slot in slots:
                self._bury(slot)
            return not any(slot.living for slot in slots)

        wait_until(nobody)

    def _abort_what_is_open(self, slots: list[Slot]) -> None:
        with_ids = [slot for slot in slots if slot.kind in WITH_IDS]
        for slot in with_ids:
            self._start(slot, only_begins=True)
        self._gone(with_ids)

    def _catch_up(self, processors: list[Slot]) -> None:
        """Until the group of processors stands behind the last record that counts."""
        reader = self._reader(SOURCE, "source", committed=True)
        ends = {one.partition(): one.offset() + 1 for one in reader.read_all()}
        reader.close()
        group = {"bootstrap.servers": self.house.broker.bootstrap}
        consumer = Consumer(QUICK | group | {"group.id": PROCESSORS})
        wanted, patience = [TopicPartition(SOURCE, n) for n in ends], Patience()
        while True:
            self._supervise(processors)
            at = self._committed(consumer, wanted)
            if at == ends or not wanted:
                break
            # where requests come late, there is always one whose offsets are pending
            assert patience.lasts((tuple(at.items()), self._commits("processor"))), (
                f"{PROCESSORS} stands at {at}, not at {ends}: {self._described()}"
            )
            time.sleep(0.1)
        consumer.close()

    def _commits(self, kind: str) -> int:
        """How many transactions have been committed, and their end answered."""
        ended, committed = b'"what": "ended"', b'"commit": true'
        lines = self._said(kind).splitlines()
        return sum(ended in line and committed in line for line in lines)

    @staticmethod
    def _committed(consumer: Consumer, wanted: list[TopicPartition]) -> dict[int, int]:
        """None, while one whom nobody follows yet has left offsets in an open
        transaction: the library asks again until they are stable."""
        try:
            found = consumer.committed(wanted, timeout=1.0) if wanted else []
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TIMED_OUT:
                raise
            return {}
        return {one.partition: one.offset for one in found}

    def _described(self) -> str:
        """The group of processors, as an administrator sees it."""
        admin = AdminClient({"bootstrap.servers": self.house.broker.bootstrap})
        asked = admin.describe_consumer_groups([PROCESSORS])
        group = asked[PROCESSORS].result(IDLE_S)
        members = [one.member_id for one in group.members]
        return f"{group.state.name}, {members}"

    # the last look

    def _reader(self, topic: str, when: str, *, committed: bool) -> Reader:
        name = f"look at {topic}, {when}, {committed}"
        history = Recorder(self.directory / f"{name}.jsonl", name)
        config = QUICK | AT_ITS_END | {"bootstrap.servers": self.house.broker.bootstrap}
        return Reader(config, history, topic, PARTITIONS, committed=committed)

    def _look(self) -> None:
        """Everything at both levels: after a kill, and when it is in tables."""
        self.house.broker.kill()
        self.house.broker.start()
        self._read_everything("after a kill")
        self.house.flush()
        self.house.flush(SINK)
        self._read_everything("from tables")

    def _read_everything(self, when: str) -> None:
        readers = [
            self._reader(topic, when, committed=committed)
            for topic in (SOURCE, SINK)
            for committed in (False, True)
        ]
        for reader in readers:
            reader.read_all()
            for partition in range(PARTITIONS):
                reader.ask_for_ends(partition)
            reader.close()

    def _hold_against_the_table(self) -> None:
        """A table has what counts, and nothing else."""
        for topic in (SOURCE, SINK):
            found, wanted = self.house.in_table(topic), self.judge.committed(topic)
            if found != wanted:
                wrong = sorted(found.items() ^ wanted.items())[:3]
                raise Violation(f"the table of {topic} differs, first in {wrong}")


def is_telling(story: Story) -> None:
    """Things happened in it that could have gone wrong."""
    ends = {one.is_committed for one in story.judge.model.transactions}
    assert ends >= {True, False}
    assert story.judge.model.acknowledged
    assert story.judge.counts["committed"]
    assert story.counts["kills of the broker"]
