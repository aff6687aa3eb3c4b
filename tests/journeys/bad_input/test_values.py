"""Requests in the right shape, about things that exist, with numbers from elsewhere.

Noise is stopped by the codec. This comes through: each name and id is a real one, and
each number is the smallest or the largest that its field can hold. A handler that adds
one to it, or a database that cannot hold it, would be found by the first user who does.
"""

import random
import struct
from importlib import import_module
from typing import Any

import pytest

from broker.dispatch.registry import Registry
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.produce import ProduceRequest
from broker.protocol.schema import Field, Struct, definition
from tests.support.patience import IDLE_S
from tests.support.peer import Peer, batch_of
from tests.support.process import BrokerPart
from tests.support.wire import frame_of

SERVED = Registry.discover().by_key
PARKED = (ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
EACH = 15


class Filler:
    """Makes requests; ``real`` are the names that exist, and ``topic_id`` the id."""

    def __init__(self, key: ApiKey, seed: int, topic: str, topic_id: bytes) -> None:
        self.module = import_module(f"broker.protocol.messages.{key.name.lower()}")
        self.chance = random.Random(seed)
        self.topic, self.topic_id = topic, topic_id

    def message(self, message: Struct, version: int) -> Any:
        fields = [*message.at(version), *message.tagged_at(version)]
        values = {field.name: self.value(field, version) for field in fields}
        return getattr(self.module, message.name)(**values)

    def value(self, field: Field, version: int) -> Any:
        if version in field.null_versions and self.chance.random() < 0.1:
            return None
        one = self.element(field, version)
        return [one] * self.chance.choice([1, 1, 1, 2]) if field.array else one

    def element(self, field: Field, version: int) -> Any:
        if isinstance(field.type, Struct):
            return self.message(field.type, version)
        if field.type in BITS:
            return self.number(field.name, BITS[field.type])
        return {
            "uint16": 65_535,
            "float64": float("inf"),
            "bool": self.chance.random() < 0.5,
            "string": self.text(field.name),
            "bytes": b"\x7f" * 9,
            "records": batch_of(b"x"),
            "uuid": self.topic_id,
        }[field.type]

    def number(self, name: str, bits: int) -> int:
        far = [-(1 << bits), (1 << bits) - 1]
        if "partition" in name or name == "index":
            return self.chance.choice([0, 0, 0, *far])
        return self.chance.choice([0, 1, 2, -1, -2, *far, *far])

    def text(self, name: str) -> str:
        if "member" in name or "instance" in name or "transactional" in name:
            return self.chance.choice(["", "", "nobody"])
        configs = ["retention.ms", "cleanup.policy", str(2**63), "-1"]
        return self.chance.choice([self.topic] * 4 + configs)

    @property
    def groups(self) -> list[str]:
        """Every name that a group may have got."""
        return [self.topic, "retention.ms", "cleanup.policy", str(2**63), "-1"]


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: ApiKey(key).name)
def test_any_number_is_answered(broker: BrokerPart, peer: Peer, key: int) -> None:
    """Offsets that were committed so are taken back: they are outside every log."""
    served, request = SERVED[key], definition(ApiKey(key).name.lower()).request
    for version in range(served.first_version, served.last_version + 1):
        topic = f"values-{key}-{version}"
        filler = Filler(served.key, 100 * key + version, topic, peer.create(topic))
        for _ in range(EACH):
            asked = filler.message(request, version)
            frame, no_answer = frame_of(asked, version, 7), wants_no_answer(asked)
            assert heard(broker, served.key, frame, no_answer), asked
        peer.ask(DeleteGroupsRequest(filler.groups), 2)


def wants_no_answer(request: Any) -> bool:
    return isinstance(request, ProduceRequest) and request.acks == 0


def heard(broker: BrokerPart, key: ApiKey, request: bytes, no_answer: bool) -> bool:
    """Whether the request is answered, before a good one behind it; parked is heard,
    too. With ``no_answer``, acks 0, it closes the connection or says nothing."""
    good = frame_of(ApiVersionsRequest("a", "1"), 3, 8)
    with Peer(broker.bootstrap, 0.2 if key in PARKED else IDLE_S) as peer:
        peer.send(request, good)
        try:
            answered = struct.unpack_from(">i", peer.receive())[0]
        except TimeoutError:
            return key in PARKED
        except ConnectionError:
            return no_answer
        return answered == (8 if no_answer else 7)
