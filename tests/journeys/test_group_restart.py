"""Members of a group do not notice that the broker was killed and came back."""

import asyncio
import queue
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as AioPartition
from aiokafka.structs import OffsetAndMetadata
from confluent_kafka import Consumer, TopicPartition

from broker.catalog import groups as stored_groups
from broker.catalog.catalog import Catalog
from broker.groups.snapshot import GroupSnapshot, decode
from tests.support.confluent import create
from tests.support.patience import IDLE_S, wait_until
from tests.support.process import BrokerPart

PARTITIONS = 2
SESSION_MS = 6_000
"""Of members that are to be expired; the others are never late."""
LONG_MS = 60_000


class ConfluentMember:
    """librdkafka; one thread does all, as an application's would: polls and commits.

    ``told`` has each call of its callbacks, ``mine`` what they said to be its own.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.told: list[str] = []
        self.mine: list[TopicPartition] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "group.id": group,
                "enable.auto.commit": False,
                "session.timeout.ms": LONG_MS,
                "heartbeat.interval.ms": 300,
                "reconnect.backoff.max.ms": 300,
            }
        )
        self.consumer.subscribe(
            [topic],
            on_assign=lambda _, given: self._hear("assigned", given),
            on_revoke=lambda *_: self._hear("revoked", []),
            on_lost=lambda *_: self._hear("lost", []),
        )
        self.asked: queue.Queue[Future[None] | None] = queue.Queue()
        self.offset = 0
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _hear(self, what: str, mine: list[TopicPartition]) -> None:
        self.told.append(what)
        self.mine = mine

    def _work(self) -> None:
        while True:
            try:
                asked = self.asked.get_nowait()
            except queue.Empty:
                self.consumer.poll(0.05)
                continue
            if asked is None:
                return
            try:
                self._commit()
                asked.set_result(None)
            except Exception as error:
                asked.set_exception(error)

    def _commit(self) -> None:
        offset = self.offset
        places = [TopicPartition(p.topic, p.partition, offset) for p in self.mine]
        for one in self.consumer.commit(offsets=places, asynchronous=False):
            assert one.error is None, one.error

    def assigned(self) -> int:
        return len(self.mine)

    def commit(self, offset: int) -> None:
        """For every partition that it has; raises if the broker refuses."""
        self.offset = offset
        asked: Future[None] = Future()
        self.asked.put(asked)
        asked.result(IDLE_S)

    def close(self) -> None:
        self.asked.put(None)
        self.thread.join()
        self.consumer.close()


class AioMember(ConsumerRebalanceListener):
    """aiokafka, on a loop that runs in a thread. ``told`` as above."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, session_ms: int = LONG_MS
    ) -> None:
        self.told: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self._run(self._start(bootstrap, topic, group, session_ms))

    async def _start(
        self, bootstrap: str, topic: str, group: str, session_ms: int
    ) -> None:
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=300,
        )
        self.consumer.subscribe([topic], listener=self)
        await self.consumer.start()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(IDLE_S)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.told.append("assigned")

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.told.append("revoked")

    def assigned(self) -> int:
        return len(self.consumer.assignment())

    def commit(self, offset: int) -> None:
        places = {
            AioPartition(one.topic, one.partition): OffsetAndMetadata(offset, "")
            for one in self.consumer.assignment()
        }
        self._run(self.consumer.commit(places))

    def die(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def close(self) -> None:
        self._run(self.consumer.stop())
        self.die()
        self.loop.close()


MEMBERS = {"confluent": ConfluentMember, "aiokafka": AioMember}


@pytest.fixture
def broker(tmp_path: Path):
    part = BrokerPart(tmp_path / "data", "groups.initial_rebalance_delay_ms=1000")
    part.start()
    yield part
    part.end()


def stored(broker: BrokerPart, group: str) -> GroupSnapshot:
    with Catalog.open(broker.data_dir / "catalog.db", read_only=True) as catalog:
        return decode(catalog.read(stored_groups.load)[group])


def settled(members: list[Any]) -> bool:
    """Whether each has its share of the partitions, and no other rebalance runs."""
    return [one.assigned() for one in members] == [1] * PARTITIONS


def restart(broker: BrokerPart, how: str) -> None:
    broker.kill() if how == "SIGKILL" else broker.stop()
    broker.start()


@pytest.mark.shared_out("restarts", 4)
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_members_go_on_in_their_generation(broker, how):
    """A group of each library, under one restart."""
    groups = {}
    for name, member in MEMBERS.items():
        create(broker.bootstrap, name, PARTITIONS)
        groups[name] = [member(broker.bootstrap, name, name) for _ in range(PARTITIONS)]
    members = list(chain(*groups.values()))
    wait_until(lambda: all(map(settled, groups.values())))
    for member in members:
        member.commit(1)
    before = {name: stored(broker, name) for name in groups}
    told = [list(one.told) for one in members]
    restart(broker, how)
    for member in members:
        member.commit(2)  # raises if the generation is not the broker's
    time.sleep(2)  # several heartbeats of each
    for member in members:
        member.commit(3)
    assert {name: stored(broker, name) for name in groups} == before
    assert [one.told for one in members] == told
    assert all(map(settled, groups.values()))
    for member in members:
        member.close()
    wait_until(lambda: not any(stored(broker, name).members for name in groups))
    broker.stop()


@pytest.mark.shared_out("restarts", 4)
def test_a_member_that_dies_with_the_broker_is_expired(broker):
    create(broker.bootstrap, "t", PARTITIONS)
    lives = AioMember(broker.bootstrap, "t", "g")
    dies = AioMember(broker.bootstrap, "t", "g", SESSION_MS)
    wait_until(lambda: settled([lives, dies]))
    before = stored(broker, "g")
    broker.kill()
    dies.die()
    started = time.monotonic()  # before the session that starts again with the broker
    broker.start()
    wait_until(lambda: lives.assigned() == PARTITIONS)
    assert time.monotonic() - started > SESSION_MS / 1000 - 1
    after = stored(broker, "g")
    assert (len(after.members), after.generation) == (1, before.generation + 1)
    lives.commit(2)
    lives.close()
    broker.stop()
