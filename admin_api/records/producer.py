"""The one producer that all requests share.

librdkafka batches what comes at the same time and keeps the order of each partition.
Its delivery reports come on a thread of ours, which begins with the first record.
Partitions are chosen by key as Java's producer chooses them.

After a record that failed, as one that was not confirmed in time or is too large,
librdkafka takes a new epoch. What was on its way over a connection that is lost
meanwhile it sends again under that, and the broker cannot tell that it has it already.
It is reported so (``epochs.py``). Where a record was late, much may be on its way that
nobody answers: all of it is given up then, before it is sent again. Without a lost
connection all others are answered, and a record that fails is its own concern, as where
one topic's table cannot be read.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)

from admin_api.kafka import GONE
from admin_api.problems import Problem
from admin_api.records.epochs import Epochs

POLL_S = 0.1
QUEUE_KBYTES_MAX = 64 * 1024
BYTES_MAX = 1_000_000_000
"""The broker's limit decides, not the client's."""
BATCH_BYTES = 16 << 10
"""As in Java. A batch that is longer than its topic takes fails with all its records,
which librdkafka, unlike Java's producer, does not send apart; with its own limit of a
megabyte so would small records fail where a topic takes less than that."""
UNKNOWN_TOPIC_MS = 1000
"""After this time a topic that the broker does not know is believed not to be there."""

OFFSET_UNKNOWN = -1
"""As Java's producer says it: a batch was sent again because its answer was lost, and
the broker says that it has it (DUPLICATE_SEQUENCE_NUMBER), or has what came behind."""

LATE = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT})

OF_NO_EPOCH = frozenset(
    {
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""So fails a record that was given up as all others were, or never had a partition:
what else is on its way is in no other epoch for that."""

_LATE = (
    "The broker did not confirm the record in time: it may have been written all the "
    "same, or be written yet."
)
_GIVEN_UP = (
    "The record was given up before the broker confirmed it: whether it is there is "
    "not known."
)
_TWICE = (
    "The record was written, perhaps twice: its connection was lost, and another one "
    "failed meanwhile."
)
_IN_WORDS = {
    KafkaError._PURGE_QUEUE: _GIVEN_UP,
    KafkaError._PURGE_INFLIGHT: _GIVEN_UP,
    KafkaError._MSG_TIMED_OUT: _LATE,
    KafkaError._TIMED_OUT: _LATE,
    KafkaError.REQUEST_TIMED_OUT: _LATE,
}
"""What librdkafka says of a record that failed, and a client could take for a record
that is not there."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record as librdkafka takes it."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_ms: int


class Identity(NamedTuple):
    """Which topic of its name it is, by its id's two halves, and how large."""

    most: int
    least: int
    partitions: int


class Delivered(NamedTuple):
    """Where a record is; nothing of what it holds, which may wait for its report."""

    partition: int
    offset: int
    """``OFFSET_UNKNOWN`` for one that is there, the broker did not say where."""
    timestamp_ms: int | None


class RecordProducer:
    """Sends records; every one is delivered, or fails, within ``timeout_s``."""

    def __init__(
        self,
        bootstrap: str,
        timeout_s: float,
        make: Callable[[dict[str, Any]], Any] = Producer,
    ) -> None:
        self._make, self._timeout_s = make, timeout_s
        self._config = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 0,
            "delivery.timeout.ms": int(timeout_s * 1000),
            # else looking a topic up again makes it again after it was deleted
            "allow.auto.create.topics": False,
            "topic.metadata.propagation.max.ms": UNKNOWN_TOPIC_MS,
            "message.max.bytes": BYTES_MAX,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.kbytes": QUEUE_KBYTES_MAX,
            # of a lost connection it is told at times only, but also where none is made
            "error_cb": lambda _error: None,
            "debug": "broker",
            "log_level": 7,
            "logger": _Log(self._on_lost),
        }
        self._lock = threading.Lock()
        self._producer: Any = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._epochs = Epochs()
        self._known: dict[str, Identity] = {}
        """What the topics were when librdkafka last looked for our sake."""

    def knows(self, topic: str, identity: Identity) -> bool:
        """Whether records go to this topic of that name, and to all its partitions."""
        return self._known.get(topic) == identity

    def learn(self, topic: str, identity: Identity) -> None:
        """Let librdkafka look the topic up now. Blocks. Raises KafkaException."""
        with self._lock:
            producer = self._there()
        producer.list_topics(topic, timeout=self._timeout_s)
        with self._lock:
            if producer is self._producer:
                self._known[topic] = identity

    def send(self, record: Outgoing) -> "Future[Delivered]":
        """Where the record is once it is delivered, or KafkaException.

        Raises Problem 42901 while too much is on its way.
        """
        delivered: Future[Delivered] = Future()
        delivered.set_running_or_notify_cancel()  # who cancels leaves it to the thread
        with self._lock:
            try:
                self._produce(record, delivered)
            except KafkaException as error:
                self._missed(record.topic, error.args[0])
                if error.args[0].code() != KafkaError._FATAL:
                    raise
                self._renew()
                self._produce(record, delivered)
        return delivered

    def give_up(self) -> None:
        """What is on its way fails now. Blocks until librdkafka's threads have let go
        of it."""
        with self._lock:
            if self._producer is not None:
                self._producer.purge()

    def close(self) -> None:
        """What is on its way is delivered or fails, and the thread is gone."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _produce(self, record: Outgoing, delivered: "Future[Delivered]") -> None:
        producer, epochs = self._there(), self._epochs
        number = epochs.sent()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            is_in_doubt = epochs.ended(number)
            if error is not None:
                self._missed(record.topic, error)
                if error.code() not in OF_NO_EPOCH:
                    epochs.failed(is_late=error.code() in LATE)
                delivered.set_exception(KafkaException(_in_words(error)))
            elif is_in_doubt:
                twice = KafkaError(KafkaError._PURGE_INFLIGHT, _TWICE)
                delivered.set_exception(KafkaException(twice))
            else:
                delivered.set_result(_delivered(message))

        try:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                -1 if record.partition is None else record.partition,
                on_delivery=on_delivery,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        except (BufferError, KafkaException) as error:
            epochs.unsent()
            if isinstance(error, KafkaException):
                raise
            raise Problem(42901, "Too much is on its way; try again later.") from None

    def _there(self) -> Any:
        """The producer, made for the first one who asks, and its thread."""
        if self._producer is None:
            self._producer = self._make(self._config)
        if self._thread is None:
            self._thread = threading.Thread(target=self._poll, daemon=True)
            self._thread.start()
        return self._producer

    def _missed(self, topic: str, error: KafkaError) -> None:
        """What librdkafka knows of a topic is old, if that is why a record failed."""
        if error.code() in GONE:
            self._known.pop(topic, None)

    def _renew(self) -> None:
        """The producer failed for good: what it held fails, and a new one comes."""
        failed, self._producer = self._producer, self._make(self._config)
        self._epochs = Epochs()
        self._known.clear()
        failed.purge()
        failed.flush(self._timeout_s)

    def _poll(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(POLL_S)
            if self._epochs.any_with_late():
                self.give_up()
        self._producer.flush()

    def _on_lost(self) -> None:
        """librdkafka has lost a connection."""
        self._epochs.lost()


class _Log:
    """What librdkafka logs of its connections: a line when one is made or lost, which
    comes on the thread of the reports, before those of what is sent again."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost

    def log(self, _level: int, _form: str, kind: str, _client: str, text: str) -> None:
        """As a Logger is called. No record goes over a connection to a bootstrap
        address, which is closed once the broker's own address is known."""
        if kind == "STATE" and "state UP -> " in text and "/bootstrap: " not in text:
            self._on_lost()


def _in_words(error: KafkaError) -> KafkaError:
    """librdkafka has two words for what was given up, and three for what is late."""
    why = _IN_WORDS.get(error.code())
    return error if why is None else KafkaError(error.code(), why)


def _delivered(message: Message) -> Delivered:
    kind, timestamp_ms = message.timestamp()
    offset, known = message.offset(), kind != TIMESTAMP_NOT_AVAILABLE
    return Delivered(
        message.partition(),
        OFFSET_UNKNOWN if offset is None else offset,
        timestamp_ms if known else None,
    )
