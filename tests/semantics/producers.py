"""Producers as processes of their own, which die at any point of what they do.

``Writer`` is idempotent, ``Transactor`` ends transactions one way or the other. Each
value is sent once.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.crash.workload import ENDLESS_S, QUICK
from tests.semantics.history import Recorder
from tests.support.patience import Patience

SOURCE = "t"
TRY_S = 5.0
"""One attempt at what is tried again until it is answered."""
HANGS_S = 2 * TRY_S
"""An attempt that takes so long does not end."""
FATAL = (KafkaError._FATAL, KafkaError._FENCED)
PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
STAGES = ("begun", "sent", "offered", "ending")


def kills_path(directory: Path) -> Path:
    """Where the story notes when it kills the broker and when that runs again."""
    return directory / "kills.jsonl"


class Over(Exception):
    """This instance may do nothing more; why is in the history."""


class Participant:
    """One process: its plan, its chance, its history."""

    def __init__(self, plan: dict[str, Any], history: Recorder) -> None:
        self.plan, self.history = plan, history
        self.name: str = plan["name"]
        self.chance = random.Random(f"{plan['seed']} {self.name}")
        self.partitions: int = plan["partitions"]
        self.stopping = threading.Event()
        self.number = 0
        self.purged = False
        """Records of this transaction were taken back by the library."""

    def run(self) -> None:
        raise NotImplementedError

    def client(self, **config: Any) -> dict[str, Any]:
        return QUICK | {"bootstrap.servers": self.plan["bootstrap"]} | config

    def pause(self, most_s: float) -> None:
        time.sleep(self.chance.uniform(0, most_s))


class Writer(Participant):
    """Sends for ever, and is killed by others."""

    def run(self) -> None:
        self.producer = Producer(self.producing())
        while not self.stopping.is_set():
            for _ in range(self.chance.randint(1, 8)):
                self.send(SOURCE, self.chance.randrange(self.partitions))
            self.producer.poll(0)
            self.pause(0.1)
        patience = Patience()
        while (left := self.producer.flush(1)) and patience.lasts(left):
            pass

    def producing(self) -> dict[str, Any]:
        return self.client(
            **{
                "enable.idempotence": True,
                "linger.ms": self.chance.choice((0, 2, 20)),
                "batch.num.messages": self.chance.choice((1, 5, 1000)),
                "message.timeout.ms": int(ENDLESS_S * 1000),
                "retry.backoff.ms": 20,
            }
        )

    def send(
        self, topic: str, partition: int, transaction: str = "", made_of: str = ""
    ) -> None:
        """A value of its own, once."""
        self.number += 1
        value = f"{self.name}#{self.number}<{made_of}"
        asked = self.history.note(
            "send",
            topic=topic,
            partition=partition,
            value=value,
            number=self.number,
            transaction=transaction,
        )

        def told(error: KafkaError | None, message: Message) -> None:
            facts = {"topic": topic, "partition": partition, "value": value}
            if error is None:
                offset = message.offset()
                self.history.note("acked", offset=offset, asked=asked, **facts)
            else:
                self.history.note("failed", error=error.name(), **facts)
                self.purged |= error.code() in PURGED

        self.producer.produce(topic, value, partition=partition, on_delivery=told)


class Transactor(Writer):
    """Transactions with records in some partitions; it dies in the middle of one."""

    def __init__(self, plan: dict[str, Any], history: Recorder) -> None:
        super().__init__(plan, history)
        self.transaction = ""
        dies = not plan["calm"] and self.chance.random() < 0.8
        self.dies_in = self.chance.randint(1, 25) if dies else 0
        self.dies_at = self.chance.choice(STAGES)
        self.transactions = 0

    def run(self) -> None:
        try:
            self.begin_life()
            while not self.stopping.is_set() and not self.plan["only_begins"]:
                self.transact()
                self.pause(0.05)
        except Over:
            pass

    def begin_life(self) -> None:
        """Get an epoch: whoever had one before is fenced."""
        config = self.producing() | {
            "transactional.id": self.plan["id"],
            "transaction.timeout.ms": 900_000,
            "message.timeout.ms": 900_000,
        }
        self.producer = Producer(config)
        asked = self.history.note("begins", id=self.plan["id"])
        self.until_answered(lambda: self.producer.init_transactions(TRY_S))
        self.history.note("initialized", id=self.plan["id"], asked=asked)

    def until_answered(self, ask: Callable[[], object]) -> None:
        """Ask again while nobody answers. Raises Over, KafkaException."""
        patience = Patience()
        while True:
            try:
                self.or_die(ask)
            except (KafkaException, SystemError) as error:
                refused = self.understood(error)
                if not refused.retriable() or not patience.lasts():
                    raise KafkaException(refused) from None
            else:
                return

    def or_die(self, ask: Callable[[], object]) -> None:
        """Ask once, and die if the library never comes back.

        After a restart of the broker librdkafka 2.16 may wait for the group's
        coordinator for ever in ``send_offsets_to_transaction``: it has added the group
        to the transaction, sends nothing more, and forgets its own timeout.
        """
        watch = threading.Timer(HANGS_S, self.hangs)
        watch.daemon = True
        watch.start()
        try:
            ask()
        finally:
            watch.cancel()

    def hangs(self) -> None:
        self.history.note("hangs", transaction=self.transaction)
        die()

    def understood(self, error: Exception) -> KafkaError:
        """What the library refused, noted. Raises Over if nothing goes on after it."""
        cause = error if isinstance(error, KafkaException) else error.__cause__
        assert isinstance(cause, KafkaException), repr(error)
        refused: KafkaError = cause.args[0]
        is_over = refused.fatal() or refused.code() in FATAL
        self.history.note(
            "refused",
            error=refused.name(),
            text=refused.str(),
            id=self.plan["id"],
            is_over=is_over,
        )
        if is_over:
            raise Over
        return refused

    # a transaction

    def transact(self) -> None:
        kills, self.purged = self.kills(), False
        try:
            self.transactions += 1
            self.transaction = f"{self.name}/{self.transactions}"
            self.producer.begin_transaction()
            self.may_die("begun")
            self.fill()
            commit = self.plan["calm"] or self.chance.random() < 0.8
            is_kept = self.end(commit=commit)
        except (KafkaException, SystemError) as error:
            is_kept = self.give_up(error)
        if self.purged and self.kills() != kills:
            raise Over
        self.closed(is_kept=is_kept)

    def kills(self) -> int:
        """Grows before the broker is killed, and when it runs again.

        What librdkafka 2.16 purges at an abort it takes for never sent. If the broker
        had it and was killed before it said so, the next transaction would come under
        the same sequence numbers: refused, or taken for what was purged. So whoever
        purged over a kill leaves, and the next life has an epoch of its own.
        """
        return kills_path(Path(self.plan["history"]).parent).stat().st_size

    def fill(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            partition = self.chance.randrange(self.partitions)
            self.send(SOURCE, partition, self.transaction)
        self.may_die("sent")
        if self.chance.random() < 0.3:
            self.pause(0.4)

    def closed(self, *, is_kept: bool) -> None:
        """The transaction is over, and was committed or not."""

    def end(self, *, commit: bool) -> bool:
        """End it; whether it is committed. Raises Over, KafkaException."""
        asked = self.history.note("ending", transaction=self.transaction, commit=commit)
        self.may_die("ending")
        producer = self.producer
        end = producer.commit_transaction if commit else producer.abort_transaction
        self.until_answered(lambda: end(TRY_S))
        self.history.note(
            "ended",
            transaction=self.transaction,
            commit=commit,
            asked=asked,
            id=self.plan["id"],
        )
        return commit

    def give_up(self, error: Exception) -> bool:
        """Abort what can go on no more."""
        refused = self.understood(error)
        assert refused.txn_requires_abort(), refused
        return self.end(commit=False)

    def may_die(self, stage: str) -> None:
        """Be killed here, as by SIGKILL from outside; while it ends, a bit later."""
        if self.transactions != self.dies_in or stage != self.dies_at:
            return
        if stage == "ending":
            later = threading.Timer(self.chance.uniform(0, 0.02), die)
            later.daemon = True
            later.start()
        else:
            self.producer.poll(self.chance.uniform(0, 0.02))
            die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
