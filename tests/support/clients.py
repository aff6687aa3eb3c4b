"""Three unmodified client libraries behind one face, each with a producer and a member.

They stay as they are while the broker goes and comes back; that is what is tested. The
member joins when it is first asked for a record: who only produces is in no group.
``commit`` tells whether it was this member's to commit: after a rebalance it is not,
and the member reads again what was not committed.
"""

import asyncio
import threading
from collections.abc import Coroutine
from functools import cached_property
from typing import Any

import aiokafka.errors
import kafka.errors
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.support.patience import IDLE_S

READ_TIMEOUT_S = IDLE_S
REBALANCED = (
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
)


class Confluent:
    """librdkafka: it works on threads of its own."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.topic, self.group = topic, group
        self.common = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
        }
        self.producer = Producer(self.common | {"enable.idempotence": True})

    @cached_property
    def consumer(self) -> Consumer:
        of_group = {
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        consumer = Consumer(self.common | of_group)
        consumer.subscribe([self.topic])
        return consumer

    def produce(self, values: list[bytes]) -> None:
        errors: list[Any] = []
        for value in values:
            self.producer.produce(
                self.topic,
                value,
                partition=0,
                on_delivery=lambda e, _: errors.append(e),
            )
        assert self.producer.flush(READ_TIMEOUT_S) == 0
        assert errors == [None] * len(values), errors

    def next(self) -> bytes:
        while True:
            message = self.consumer.poll(READ_TIMEOUT_S)
            assert message is not None, "nothing came"
            if message.error() is None:
                value: bytes = message.value()
                return value

    def commit(self) -> bool:
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in REBALANCED:
                raise
            return False
        return True

    def close(self) -> None:
        if "consumer" in vars(self):
            self.consumer.close()


class AioKafka:
    """aiokafka, on a loop that runs in a thread."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.producer = self._run(self._producing())

    async def _producing(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, enable_idempotence=True
        )
        await producer.start()
        return producer

    @cached_property
    def consumer(self) -> AIOKafkaConsumer:
        return self._run(self._consuming())

    async def _consuming(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        return consumer

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(READ_TIMEOUT_S)

    def produce(self, values: list[bytes]) -> None:
        async def send() -> None:
            sent = [
                await self.producer.send(self.topic, v, partition=0) for v in values
            ]
            await asyncio.gather(*sent)

        self._run(send())

    def next(self) -> bytes:
        value: bytes = self._run(self.consumer.getone()).value
        return value

    def commit(self) -> bool:
        try:
            self._run(self.consumer.commit())
        except aiokafka.errors.CommitFailedError:
            return False
        return True

    def close(self) -> None:
        if "consumer" in vars(self):
            self._run(self.consumer.stop())
        self._run(self.producer.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class KafkaPython:
    """kafka-python: its consumer works while it is asked."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True
        )

    @cached_property
    def consumer(self) -> KafkaConsumer:
        return KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=int(READ_TIMEOUT_S * 1000),
        )

    def produce(self, values: list[bytes]) -> None:
        sent = [self.producer.send(self.topic, value, partition=0) for value in values]
        for one in sent:
            one.get(READ_TIMEOUT_S)

    def next(self) -> bytes:
        value: bytes = next(self.consumer).value
        return value

    def commit(self) -> bool:
        try:
            self.consumer.commit()
        except kafka.errors.CommitFailedError:
            return False
        return True

    def close(self) -> None:
        if "consumer" in vars(self):
            self.consumer.close(autocommit=False)
        self.producer.close(5)


LIBRARIES = {"confluent": Confluent, "aiokafka": AioKafka, "kafka-python": KafkaPython}
