"""What clients push of their own metrics, and what they are asked for (KIP-714).

The rules are those of Kafka's ``ClientMetricsManager``: a client instance gets an id
and a subscription, pushes no more often than that says, is told when the subscription
has become another, and says when it ends. Whoever wants the metrics (OpenTelemetry's,
as they came) finds the newest of each instance here.

The price: memory. So there are so many instances, and so many bytes of their metrics,
and beyond that the one that was silent for longest is forgotten: it asks again.
"""

import os
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_SNAPPY,
    CODEC_ZSTD,
)
from broker.topics.kept_configs import CLIENT_METRICS_CONFIGS, INTERVAL_MS, METRICS
from broker.topics.spellings import split_list

INSTANCES_MAX: Final = 4_096
BYTES_MAX: Final = 16 << 20
"""Of the newest metrics of all instances, their names and what they are asked for."""
NAME_BYTES: Final = 64
"""What the name of a metric takes beside its characters."""
ALL_METRICS: Final = "*"
CODECS: Final = (CODEC_ZSTD, CODEC_LZ4, CODEC_GZIP, CODEC_SNAPPY)
"""In which metrics may come, the best first."""
NOBODY: Final = frozenset(number.to_bytes(16) for number in range(2))
"""Ids that Kafka keeps for itself."""
NEVER_MS: Final = -(1 << 62)


class Subscription(NamedTuple):
    """What an instance is asked for."""

    id: int
    push_interval_ms: int
    metrics: tuple[str, ...]
    bytes: int = 0
    """About what it takes."""


@dataclass(slots=True)
class Instance:
    """A client that asked. ``version`` is that of the configurations which its
    subscription was made of."""

    id: bytes
    client_id: str
    subscription: Subscription
    version: int
    asked_ms: int = NEVER_MS
    pushed_ms: int = NEVER_MS
    may_ask_again: bool = False
    is_ending: bool = False
    metrics: bytes = b""

    @property
    def weight(self) -> int:
        """About what is kept of it, in bytes."""
        return len(self.metrics) + len(self.client_id) + self.subscription.bytes


def subscription_of(
    instance_id: bytes, configured: Iterable[dict[str, str]]
) -> Subscription:
    """What an instance is asked for, by all configurations that match it. Of very many
    names that takes longer than a turn of the loop may."""
    default = CLIENT_METRICS_CONFIGS[INTERVAL_MS].default
    assert default is not None
    interval_ms, metrics = int(default), set[str]()
    for configs in configured:
        interval_ms = min(interval_ms, int(configs.get(INTERVAL_MS, default)))
        metrics.update(split_list(configs.get(METRICS, "")))
    asked = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
    text = "\0".join((str(interval_ms), *asked)).encode()
    number = zlib.crc32(text, zlib.crc32(instance_id))
    size = sum(map(len, asked)) + NAME_BYTES * len(asked)
    return Subscription(number - (1 << 31), interval_ms, asked, size)


class Telemetry:
    """All client instances. For the event loop's thread only."""

    def __init__(self, chance: Callable[[int], bytes] = os.urandom) -> None:
        self._chance = chance
        self.version = 0
        """Of the configurations; whoever changes them adds one."""
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()
        self._bytes = 0

    def new_id(self) -> bytes:
        """An id for an instance that has none."""
        return uuid.UUID(bytes=self._chance(16), version=4).bytes

    def known(self, instance_id: bytes) -> Instance | None:
        """The instance, if what it is asked for is still what is configured."""
        found = self._instances.get(instance_id)
        return found if found and found.version == self.version else None

    def put(
        self,
        instance_id: bytes,
        client_id: str,
        subscription: Subscription,
        version: int,
    ) -> Instance:
        """The instance, new or with another subscription."""
        found = self._instances.get(instance_id)
        if found is None:
            found = Instance(instance_id, client_id, subscription, version)
            self._instances[instance_id] = found
            self._bytes += found.weight
            if len(self._instances) > INSTANCES_MAX:
                self._forget()
        before = found.weight
        found.subscription, found.version = subscription, version
        self._grown(found.weight - before)
        return found

    def ask(self, instance: Instance, now_ms: int) -> None:
        """It asks for its subscription. Raises THROTTLING_QUOTA_EXCEEDED."""
        last_ms = max(instance.asked_ms, instance.pushed_ms)
        early = now_ms - last_ms < instance.subscription.push_interval_ms
        if early and not instance.may_ask_again:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.asked_ms, instance.may_ask_again = now_ms, False
        self._seen(instance)

    def check_push(
        self,
        instance: Instance,
        subscription_id: int,
        codec: int,
        size: int,
        bytes_max: int,
        *,
        ends: bool,
        now_ms: int,
    ) -> None:
        """It pushes. Raises KafkaError: INVALID_REQUEST after its end,
        THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID,
        UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE."""
        if instance.is_ending:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        elapsed_ms = now_ms - instance.pushed_ms
        is_due = elapsed_ms >= instance.subscription.push_interval_ms
        if not (is_due or instance.asked_ms > instance.pushed_ms or ends):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.pushed_ms, instance.is_ending = now_ms, ends
        self._seen(instance)
        if subscription_id != instance.subscription.id:
            instance.may_ask_again = True
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if codec != CODEC_NONE and codec not in CODECS:
            instance.may_ask_again = True
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if size > bytes_max:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)

    def keep(self, instance: Instance, metrics: bytes) -> None:
        """Keep what it pushed instead of what it pushed before."""
        if self._instances.get(instance.id) is not instance:
            return  # it was forgotten meanwhile
        before, instance.metrics = instance.weight, metrics
        self._grown(instance.weight - before)

    def instances(self) -> Iterator[Instance]:
        """All of them, the one that was silent for longest first."""
        yield from tuple(self._instances.values())

    def _seen(self, instance: Instance) -> None:
        if instance.id in self._instances:
            self._instances.move_to_end(instance.id)

    def _grown(self, size: int) -> None:
        self._bytes += size
        while self._bytes > BYTES_MAX:
            self._forget()

    def _forget(self) -> None:
        _, gone = self._instances.popitem(last=False)
        self._bytes -= gone.weight
