"""The simulation's judge, on what real clients wrote down.

The lines of all histories are told to the model of ``tests/simulation`` in their order;
what a question may be answered with is taken from what was known when it left. Then
each read is told again, now that all is known. Beside the model's own rules:

* an instance that has its epoch has fenced those that had theirs before it asked, and
  nobody else is fenced;
* a producer that does its work in order is refused nothing for ever;
* of each committed record of the source there is one committed record in the sink, of
  no other any (exactly once).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.semantics.consumers import SINK, SOURCE
from tests.semantics.history import Event
from tests.simulation.model import CommittedModel, Model, PartitionModel, Violation
from tests.simulation.transactions import TransactionModel

FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FATAL")


@dataclass
class Instance:
    """One life of a producer of a transactional id, and when it got its epoch."""

    name: str
    asked: int
    given: int | None = None


@dataclass
class Judge:
    """Everything that was written down, and whether it can all be true."""

    partitions: int
    model: Model = field(default_factory=Model)
    counts: Counter[str] = field(default_factory=Counter)
    """How many lines of each kind there were."""

    def __post_init__(self) -> None:
        for topic in (SOURCE, SINK):
            self.model.topic(topic, self.partitions)
        self._instances: dict[str, list[Instance]] = defaultdict(list)
        self._transactions: dict[str, TransactionModel] = {}
        self._offered: dict[str, Event] = {}
        self._known: dict[int, list[int]] = {}
        self._began: dict[str, int] = {}
        """Transaction -> when its first record was sent."""
        self._ending_of: dict[str, Event] = {}
        """Instance -> the end that it asked for last."""
        self._delivered: set[str] = set()
        """Transactions of which a record was acknowledged."""
        self._ran = -1
        """When the broker ran again after its last kill."""

    def hear(self, events: Iterable[Event]) -> None:
        """All histories, in order. Raises Violation."""
        events = list(events)
        at: list[tuple[int, int, Event]] = []
        for event in events:
            at.append((event["t"], 1, event))
            if f"_know_{event['what']}" in dir(self):
                at.append((event["asked"], 0, event))
        for _, is_answer, event in sorted(at, key=lambda one: one[:2]):
            what = event["what"]
            if is_answer:
                self.counts[what] += 1
                getattr(self, f"_{what}")(event)
            else:
                known = getattr(self, f"_know_{what}")(event)
                self._known[id(event)] = known
        for event in events:
            if event["what"] == "read":
                self._read(event)
        for topic in self.model.topics.values():
            for part in topic.partitions:
                part.check_order()

    def committed(self, topic: str) -> dict[tuple[int, int], bytes]:
        """(partition, offset) -> value of what counts, from all that was read."""
        found = {}
        for number, part in enumerate(self.model.topics[topic].partitions):
            for offset, value in part.at.items():
                transaction = part.transactions.get(value)
                if transaction is None or transaction.is_committed:
                    found[number, offset] = value
        return found

    def is_exactly_once(self) -> None:
        """The sink has one record of each of the source. Raises Violation."""
        made_of: Counter[tuple[int, int]] = Counter()
        for value in self.committed(SINK).values():
            partition, offset = value.decode().rpartition("<")[2].split(":")
            made_of[int(partition), int(offset)] += 1
        source = self.committed(SOURCE)
        for place, count in made_of.items():
            if count > 1:
                raise Violation(f"{place} of the source is {count} times in the sink")
            if place not in source:
                raise Violation(
                    f"{place} of the source does not count, its record does"
                )
        skipped = sorted(source.keys() - made_of.keys())
        if skipped:
            raise Violation(f"{len(skipped)} records skipped, the first: {skipped[0]}")

    # producers

    def _part(self, event: Event) -> PartitionModel:
        return self.model.topics[event["topic"]].partitions[event["partition"]]

    def _send(self, event: Event) -> None:
        part, value = self._part(event), event["value"].encode()
        part.send(value, event["who"], event["number"])
        if event["transaction"]:
            part.transactions[value] = self._transaction(event)
            self._began.setdefault(event["transaction"], event["t"])

    def _transaction(self, event: Event) -> TransactionModel:
        name = event["transaction"]
        if name not in self._transactions:
            self._transactions[name] = TransactionModel(name)
            self.model.transactions.append(self._transactions[name])
        return self._transactions[name]

    def _acked(self, event: Event) -> None:
        self._check_fence(event, f"{event['value']} was acknowledged")
        self.model.acknowledged += 1
        part, value = self._part(event), event["value"].encode()
        part.note(event["offset"], value, f"acknowledged to {event['who']}")
        if value in part.transactions:
            self._delivered.add(part.transactions[value].name)

    def _failed(self, event: Event) -> None:
        """Not delivered, as far as the library knows; of a transaction it may be so."""
        transaction = self._part(event).transactions.get(event["value"].encode())
        if transaction is None:
            raise Violation(f"{event['value']} is refused: {event['error']}")

    def _begins(self, event: Event) -> None:
        lives = self._instances[event["id"]]
        lives.append(Instance(event["who"], event["t"]))

    def _initialized(self, event: Event) -> None:
        self._check_fence(event, "InitProducerId")
        self._life(event["who"]).given = event["t"]

    def _life(self, name: str) -> Instance:
        return next(
            one
            for lives in self._instances.values()
            for one in lives
            if one.name == name
        )

    def _check_fence(self, event: Event, how: str) -> None:
        """Nobody had fenced who asked for this when it was asked."""
        for lives in self._instances.values():
            mine = next((one for one in lives if one.name == event["who"]), None)
            if mine is None or mine.given is None:
                continue
            for other in lives:
                is_newer = other.asked > mine.given and other.given is not None
                if is_newer and (other.given or 0) < event["asked"]:
                    raise Violation(f"{how}, {other.name} has fenced {mine.name}")

    def _refused(self, event: Event) -> None:
        """Something that the library does not try again; the end of an instance only
        if another may have got its epoch since."""
        if not event["is_over"] or self._aborts_what_never_began(event):
            return
        mine = self._life(event["who"])
        others = [one for one in self._instances[event["id"]] if one is not mine]
        may_be_fenced = any(
            one.given is None or one.given > mine.asked for one in others
        )
        is_fenced = event["error"] in FENCED or self._meets_its_abort(event)
        if not is_fenced or not may_be_fenced:
            raise Violation(f"{mine.name} is told {event['error']}: {event['text']}")

    def _aborts_what_never_began(self, event: Event) -> bool:
        """The transaction's first request was lost with a broker that was killed, so
        that to the next one there is nothing to abort: after a commit Kafka answers
        INVALID_TXN_STATE as well, and librdkafka 2.16 takes it for the end."""
        ending = self._ending_of.get(event["who"])
        if event["error"] != "INVALID_TXN_STATE" or ending is None or ending["commit"]:
            return False
        name = ending["transaction"]
        began = self._began.get(name)
        is_over_a_kill = began is not None and began < self._ran
        return is_over_a_kill and name not in self._delivered

    def _meets_its_abort(self, event: Event) -> bool:
        """Who comes aborts first what is open, under the epoch that a commit of
        version 2 would have brought. Until it is given an epoch of its own that commit
        is a repetition, and of the wrong end; Kafka 4.3 says the same."""
        ending = self._ending_of.get(event["who"])
        is_so = event["error"] == "INVALID_TXN_STATE" and event.get("version") == 2
        return (
            is_so
            and ending is not None
            and self._transactions[ending["transaction"]].commit_asked
        )

    def _kills(self, event: Event) -> None:
        """The broker is about to be killed."""

    def _runs(self, event: Event) -> None:
        self._ran = event["t"]

    def _hangs(self, event: Event) -> None:
        """The library does not come back; its process killed itself."""

    def _ending(self, event: Event) -> None:
        transaction = self._transaction(event)
        transaction.commit_asked |= event["commit"]
        self._ending_of[event["who"]] = event

    def _ended(self, event: Event) -> None:
        transaction = self._transaction(event)
        if event["commit"]:
            self._check_fence(event, f"the commit of {transaction.name} succeeds")
            transaction.committed("acknowledged")
        else:
            transaction.aborted("acknowledged")
        offered = self._offered.get(transaction.name)
        if event["commit"] and offered is not None:
            self._committed(offered)

    # offsets

    def _offsets(self, event: Event) -> Iterable[tuple[CommittedModel, int]]:
        for partition, offset in event["offsets"].items():
            known = self.model.committed(event["group"], SOURCE, int(partition))
            yield known, offset

    def _committing(self, event: Event) -> None:
        for known, offset in self._offsets(event):
            known.ask(offset)

    def _offering(self, event: Event) -> None:
        self._offered[event["transaction"]] = event
        self._committing(event)

    def _committed(self, event: Event) -> None:
        for known, offset in self._offsets(event):
            known.acknowledge(offset)

    def _know_stands(self, event: Event) -> list[int]:
        return [known.acknowledged for known, _ in self._offsets(event)]

    def _stands(self, event: Event) -> None:
        before = self._known.pop(id(event))
        for (known, offset), least in zip(self._offsets(event), before, strict=True):
            known.saw(offset, least, event["who"])

    # readers

    def _read(self, event: Event) -> None:
        records = [(offset, value.encode()) for offset, value in event["records"]]
        level = "committed" if event["committed"] else "all"
        how = f"{event['who']} reads {level} from {event['start']}"
        start, end = event["start"], event["end"]
        part = self._part(event)
        if any(not start <= offset < end for offset, _ in records):
            raise Violation(f"{part.name}: a record outside of {start}-{end} ({how})")
        part.read(start, end, records, how, committed=event["committed"])
        self.model.read += len(records)

    def _reset(self, event: Event) -> None:
        raise Violation(
            f"{event['who']} is told that an offset is out of range: {event}"
        )

    def _know_ends(self, event: Event) -> list[int]:
        part = self._part(event)
        return [part.stable if event["committed"] else part.end]

    def _ends(self, event: Event) -> None:
        (before,) = self._known.pop(id(event))
        part, how = self._part(event), f"ListOffsets of {event['who']}"
        part.saw_start(event["low"], part.start, how)
        if event["committed"]:
            part.saw_stable(event["high"], before, how)
        else:
            part.saw_end(event["high"], before, how)
