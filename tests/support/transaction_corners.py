"""What a broker answers to those who write in transactions, asked over raw frames.

``table(bootstrap)`` plays whole lives of producers, in each version of each API, and at
each step what is wrong there. The answers come as lines (see ``admin_corners``), in
which a producer's id stands as ``P``, one that follows it as ``P2`` and so on. What a
coordinator is still busy with (CONCURRENT_TRANSACTIONS) is asked again until it is not.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from broker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.protocol.messages.end_txn import EndTxnRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from tests.support.admin_corners import PATIENCE_S, Asker, Case, Said, plain
from tests.support.admin_requests import SAFE_DOWNGRADE, UPGRADE

TIMEOUT_MS: Final = 600_000
NOWHERE: Final = "no-such-topic"
BUSY: Final = re.compile(r"error_code=(14|15|16|19|51)\b")
"""Loading, no coordinator yet, not the coordinator, another transaction ends (19: so a
Produce says it)."""
NEW: Final = 2
"""The level of transactions at which partitions and groups join by being written to."""
STALE, FUTURE = -1, 1
"""From the right epoch."""


@dataclass
class Producer:
    """A transactional id, and what the coordinator gave it."""

    id: str
    producer_id: int = -1
    epoch: int = -1

    @property
    def known(self) -> tuple[str, int, int]:
        return self.id, self.producer_id, self.epoch

    def other(self, more: int) -> tuple[str, int, int]:
        return self.id, self.producer_id, self.epoch + more

    def mistaken(self, run: str) -> dict[str, tuple[str, int, int]]:
        """Who it is taken for by one that is wrong, by what is wrong."""
        return {
            "stale epoch": self.other(STALE),
            "future epoch": self.other(FUTURE),
            "another producer": (self.id, self.producer_id + 1_000_000, self.epoch),
            "no producer": (self.id, -1, -1),
            "unknown id": (f"nobody-{run}", self.producer_id, self.epoch),
            "empty id": ("", self.producer_id, self.epoch),
        }


class Teller(Asker):
    """Who asks on behalf of producers, and calls each the same in every answer."""

    def __init__(self, bootstrap: str, level: int = NEW, settle_s: float = 0.0) -> None:
        super().__init__(bootstrap, settle_s)
        self.level = level
        self.made = 0
        self.names: dict[int, str] = {}
        for kind in (0, 1):  # a Kafka makes its topics when it is first asked
            self.settled(FindCoordinatorRequest("first", kind), 3)

    def levelled(self, level: int) -> None:
        """``transaction.version`` is finalized at a level."""
        kind = UPGRADE if level == NEW else SAFE_DOWNGRADE
        update = FeatureUpdateKey("transaction.version", level, kind != UPGRADE, kind)
        answer = self.peer.ask(UpdateFeaturesRequest(60_000, [update]), 1)
        assert answer.error_code == 0, answer
        time.sleep(self.settle_s)

    def note(self, case: str, version: int, answer: Any) -> None:
        super().note(case, version, self._named(plain(answer)))

    def _named(self, said: Any) -> Any:
        if isinstance(said, list):
            return sorted((self._named(one) for one in said), key=repr)
        if not isinstance(said, Said):
            return said
        return Said(
            {
                name: self.names.get(value, value)
                if name == "producer_id"
                else self._named(value)
                for name, value in said.items()
            }
        )

    def _is_busy(self, answer: Any) -> bool:
        return BUSY.search(repr(plain(answer))) is not None

    def settled(self, request: Any, version: int) -> Any:
        """The answer, once the coordinator is not busy."""
        deadline = time.monotonic() + PATIENCE_S
        while self._is_busy(answer := self.ask(request, version)):
            assert time.monotonic() < deadline, f"busy for ever: {answer}"
            time.sleep(0.02)
        return answer

    def tell(self, case: str, request: Any, version: int) -> Any:
        """Note the settled answer, and give it back."""
        answer = self.settled(request, version)
        self.note(case, version, answer)
        return answer

    def stands(self, name: str, word: str) -> None:
        """A name of this run is said by a word."""
        self.stand_ins[name.replace(self.run, "R")] = word

    def calls(self, producer_id: int) -> None:
        """The ids that appear from here on belong to one producer: P, P2, P3."""
        if producer_id >= 0 and producer_id not in self.names:
            count = len(self.names) + 1
            self.names[producer_id] = f"P{count}" if count > 1 else "P"

    def producer(self, word: str, version: int = 4) -> Producer:
        """A new one, with its first epoch."""
        self.made += 1
        one = Producer(f"{word}-{self.made}-{self.run}")
        self.stand_ins.clear()
        self.stands(one.id, word)
        self.names.clear()
        asked = InitProducerIdRequest(one.id, TIMEOUT_MS)
        answer = self.settled(asked, version)
        assert answer.error_code == 0, answer
        self.take(one, answer)
        return one

    def take(self, one: Producer, answer: Any) -> None:
        """Go on with the id and epoch of an answer, if it has any."""
        if not answer.error_code and answer.producer_id >= 0:
            one.producer_id, one.epoch = answer.producer_id, answer.producer_epoch
            self.calls(one.producer_id)

    def again(self, one: Producer) -> Producer:
        """The same id, started anew: the next epoch."""
        found = self.settled(InitProducerIdRequest(one.id, TIMEOUT_MS), 4)
        assert found.error_code == 0, found
        newer = Producer(one.id)
        self.take(newer, found)
        return newer

    def begun(self, word: str, topic: str, version: int = 3) -> Producer:
        """A producer with partition 0 of a topic in its transaction."""
        one = self.producer(word)
        answer = self.settled(adding(version, one.known, (topic, [0])), version)
        assert "error_code" not in repr(plain(answer)), answer
        return one


def adding(
    version: int,
    known: tuple[str, int, int],
    *topics: tuple[str, list[int]],
    verify: bool = False,
) -> AddPartitionsToTxnRequest:
    """Partitions for one transaction, in the shape of the version."""
    asked = [AddPartitionsToTxnTopic(*one) for one in topics]
    if version < 4:
        return AddPartitionsToTxnRequest([], *known, asked)
    return AddPartitionsToTxnRequest(
        [AddPartitionsToTxnTransaction(*known, verify, asked)]
    )


def ending(one: Producer, commit: bool, more: int = 0) -> EndTxnRequest:
    return EndTxnRequest(*one.other(more), commit)


def initializing(teller: Teller) -> Iterator[Case]:
    for version in range(6):

        def tell(case: str, *asked: Any, version: int = version) -> Any:
            request = InitProducerIdRequest(*asked)
            answer = teller.settled(request, version)
            teller.calls(answer.producer_id)
            teller.note(f"initializing, {case}", version, answer)
            return answer

        name = f"init-{version}-{teller.run}"
        teller.names.clear()
        tell("idempotent", None, TIMEOUT_MS)
        teller.names.clear()
        tell("idempotent, no time", None, 0)
        for time_ms in (0, -1, -(2**31), 900_001, 2**31 - 1):
            tell(f"{time_ms} ms", name, time_ms)
        tell("empty id", "", TIMEOUT_MS)
        teller.names.clear()
        tell("new", name, 1)
        tell("again", name, 900_000)
        found = tell("once more", name, TIMEOUT_MS)
        if version < 3:
            continue
        known = found.producer_id, found.producer_epoch
        for case, who in {
            "of a new id": (f"none-{version}", 7_000_000, 3),
            "half an id": (name, known[0], -1),
            "half an epoch": (name, -1, known[1]),
            "another producer": (name, known[0] + 1_000_000, known[1]),
            "a future epoch": (name, known[0], known[1] + 1),
            "a negative id": (name, -2, 0),
            "a negative epoch": (name, known[0], -2),
            "idempotent, known": (None, *known),
        }.items():
            if who[0] == name or who[0] is None:
                tell(f"{case}, known", who[0], TIMEOUT_MS, *who[1:])
            else:
                teller.names.clear()
                tell(f"{case}, known", f"{who[0]}-{teller.run}", TIMEOUT_MS, *who[1:])
                teller.names.clear()
                teller.calls(known[0])
        tell("bumped", name, TIMEOUT_MS, *known)
        tell("bumped, again", name, TIMEOUT_MS, *known)
        tell("bumped, of long ago", name, TIMEOUT_MS, known[0], known[1] - 1)
    yield from ()


def interrupting(teller: Teller) -> Iterator[Case]:
    """Who comes while a transaction is open, and who was there before."""
    topic, _ = teller.create("interrupting")
    # at level 1 a Kafka fences who asks again for the next epoch of its own
    for version in range(6 if teller.level == NEW else 3):
        one = teller.begun("open", topic)
        request = InitProducerIdRequest(one.id, TIMEOUT_MS)
        if version >= 3:
            request.producer_id, request.producer_epoch = one.producer_id, one.epoch
        answer = teller.tell("interrupting, open", request, version)
        newer = Producer(one.id, answer.producer_id, answer.producer_epoch)
        for end in range(6):
            asked = ending(one, commit=True)
            teller.tell(f"interrupting by {version >= 3}, the old ends", asked, end)
        for add in range(4):
            asked = adding(add, one.known, (topic, [0]))
            teller.tell("interrupting, the old adds", asked, add)
            if answer.error_code == 0:
                asked = adding(add, newer.known, (topic, [0]))
                teller.tell("interrupting, the new adds", asked, add)
        for add in range(5):
            group = AddOffsetsToTxnRequest(*one.known, "g")
            teller.tell("interrupting, the old adds a group", group, add)
        request = InitProducerIdRequest(one.id, TIMEOUT_MS)
        if version >= 3:
            request.producer_id, request.producer_epoch = one.producer_id, one.epoch
            teller.tell("interrupting, the old comes again", request, version)
    yield from ()


def partitions(teller: Teller) -> Iterator[Case]:
    topic, _ = teller.create("adding", 3)
    other, _ = teller.create("beside")
    for version in range(6):
        one = teller.producer("adds")

        def tell(
            case: str,
            *topics: tuple[str, list[int]],
            known: tuple[str, int, int],
            version: int = version,
            verify: bool = False,
        ) -> None:
            asked = adding(version, known, *topics, verify=verify)
            teller.tell(f"adding, {case}", asked, version)

        here = topic, [0]
        for case, known in one.mistaken(teller.run).items():
            tell(case, here, known=known)
        if (
            version == 5
        ):  # 4 does not know TRANSACTION_ABORTABLE here, and Kafka says it
            tell("verified, not begun", here, known=one.known, verify=True)
        for case, topics in {
            "nothing": [],
            "no partitions": [(topic, [])],
            "no topic": [(NOWHERE, [0])],
            "no partition": [(topic, [9])],
            "negative partition": [(topic, [-1])],
            "one, and no topic": [here, (NOWHERE, [0])],
            "one, and no partition": [(topic, [0, 9])],
            "unnameable": [("a b", [0])],
            "nameless": [("", [0])],
        }.items():
            tell(case, *topics, known=one.known)
        for case, topics in {
            "one": [here],
            "one again": [here],
            "two topics": [here, (other, [0])],
        }.items():
            tell(case, *topics, known=one.known)
        if version >= 4:
            for case, topics in {
                "one": [here],
                "one that is not in it": [(topic, [9])],
                "one of two": [(topic, [0, 9])],
                "nothing": [],
            }.items():
                tell(f"verified, {case}", *topics, known=one.known, verify=True)
            tell("verified, stale", here, known=one.other(STALE), verify=True)
            tell("verified, future", here, known=one.other(FUTURE), verify=True)
            batches(teller, version, one, topic)
        assert teller.settled(ending(one, commit=True), 3).error_code == 0
        if version == 5:
            tell("verified, ended", here, known=one.known, verify=True)
        tell("the next", here, known=one.known)
    yield from ()


def batches(teller: Teller, version: int, one: Producer, topic: str) -> None:
    """Several transactions in one request."""
    other = Producer(one.id, *one.other(STALE)[1:])
    here = [AddPartitionsToTxnTopic(topic, [0])]

    def of(who: tuple[str, int, int], verify: bool) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(*who, verify, here)

    nobody = (f"nobody-{teller.run}", one.producer_id, one.epoch)
    for case, asked in {
        "two": [of(one.known, False), of(nobody, False)],
        "two, verified": [of(one.known, True), of(nobody, True)],
        "mixed": [of(one.known, True), of(nobody, False)],
        "one stale": [of(other.known, False), of(nobody, True)],
    }.items():
        request = AddPartitionsToTxnRequest(asked)
        teller.tell(f"adding, transactions, {case}", request, version)


def groups(teller: Teller) -> Iterator[Case]:
    for version in range(5):
        one = teller.producer("groups")
        for case, known in {
            "stale epoch": one.other(STALE),
            "future epoch": one.other(FUTURE),
            "another producer": (one.id, one.producer_id + 1_000_000, one.epoch),
            "no producer": (one.id, -1, -1),
            "unknown id": (f"nobody-{teller.run}", one.producer_id, one.epoch),
            "empty id": ("", one.producer_id, one.epoch),
            "right": one.known,
            "again": one.known,
        }.items():
            asked = AddOffsetsToTxnRequest(*known, f"g-{teller.run}")
            teller.tell(f"adding a group, {case}", asked, version)
        nameless = AddOffsetsToTxnRequest(*one.known, "")
        teller.tell("adding a group, nameless", nameless, version)
        teller.tell("adding a group, commit", ending(one, commit=True), 3)
    yield from ()


def ends(teller: Teller) -> Iterator[Case]:
    topic, _ = teller.create("ending")
    for version in range(6):
        for commit in (True, False):
            word = "commit" if commit else "abort"
            one = teller.producer("ends")

            def tell(
                case: str,
                request: EndTxnRequest,
                version: int = version,
                word: str = word,
            ) -> Any:
                return teller.tell(f"ending, {word}, {case}", request, version)

            for case, known in one.mistaken(teller.run).items():
                tell(f"not begun, {case}", EndTxnRequest(*known, commit))
            answer = tell("not begun", ending(one, commit))
            teller.take(one, answer)
            add_version = 3
            asked = adding(add_version, one.known, (topic, [0]))
            assert (
                not teller.settled(asked, add_version)
                .results_by_topic_v3_and_below[0]
                .results_by_partition[0]
                .partition_error_code
            )
            for case, known in {
                "stale epoch": one.other(STALE),
                "future epoch": one.other(FUTURE),
                "another producer": (one.id, one.producer_id + 1_000_000, one.epoch),
            }.items():
                tell(f"begun, {case}", EndTxnRequest(*known, commit))
            before = Producer(*one.known)
            answer = tell("begun", ending(one, commit))
            teller.take(one, answer)
            tell("as it was, again", ending(before, commit))
            tell("as it was, the other way", ending(before, not commit))
            tell("of a stale epoch, after", ending(before, commit, STALE))
            tell("again", ending(one, commit))
            tell("the other way", ending(one, not commit))
            newer = teller.again(one)
            tell("of the old", ending(one, commit))
            tell("of the new", ending(newer, commit))
    yield from ()
