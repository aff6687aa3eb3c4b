"""What a new catalog is to hold, decided from what tables and segments say.

The problem: segments know topics by number alone, and a number that is given to the
wrong topic mixes the records of two. The idea: a table says its topic's number, and is
believed unless another one says the same; what segments hold of a number that no table
says is for the operator to name, or to give up. Nothing is guessed.

A table of the version before says no number, no configurations, and how many partitions
it had when it was made. It gets a new number, the broker's defaults, and as many
partitions as it has rows of at least. Pure.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from broker.ids import TopicNumber, TopicPartition
from broker.protocol.errors import KafkaError
from broker.runtime.rebuilding.found_tables import FoundTable, FoundTables
from broker.topics import names
from broker.topics.configs import validate
from broker.topics.topic import Topic
from lakehouse.location import directory_name

Range = tuple[int, int]
_NONE: Final = TopicNumber(0)


class PlannedTopic(NamedTuple):
    """A topic as it will be, with where each partition's log starts and its table ends.

    ``is_deleted``: what is left of it is its table, which goes in its time."""

    topic: Topic
    log_starts: Mapping[int, int]
    table_ends: Mapping[int, int]
    is_deleted: bool = False
    created_ms: int | None = None


class Answers(NamedTuple):
    """What the operator says of numbers that no table says: names, and numbers whose
    records are given up."""

    names: Mapping[TopicNumber, str] = MappingProxyType({})
    left: frozenset[TopicNumber] = frozenset()


NO_ANSWERS: Final = Answers()


@dataclass(slots=True)
class Plan:
    """``problems``: what could not be read or taken over, one sentence each;
    ``unanswered``: what the operator has to say first; ``remarks``: the rest."""

    topics: list[PlannedTopic] = field(default_factory=list)
    last_number: TopicNumber = _NONE
    problems: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def living(self) -> list[PlannedTopic]:
        return [one for one in self.topics if not one.is_deleted]


def plan_topics(
    tables: FoundTables,
    held: Mapping[TopicPartition, Range],
    ends: Mapping[TopicPartition, int],
    answers: Answers,
    new_id: Callable[[], bytes],
) -> Plan:
    """``held``: partition -> [first offset, end) of what segments have; ``ends``: where
    the log knows partitions to end."""
    plan = Plan(problems=list(tables.problems), remarks=list(tables.remarks))
    numbers = {number for number, _ in ends}
    said = {one.facts.number or 0 for one in tables.tables}
    plan.last_number = TopicNumber(max([0, *numbers, *said, *answers.names]))
    planned = _Planned(plan, ends, answers, _contested(tables))
    for table in tables.tables:
        planned.add(table)
    planned.add_named(new_id, tables.nameless)
    _ask(plan, held, answers, planned.unnumbered)
    plan.topics.sort(key=lambda one: one.topic.number)
    return plan


class _Planned:
    """The topics so far; no id, number or name is taken twice."""

    def __init__(
        self,
        plan: Plan,
        ends: Mapping[TopicPartition, int],
        answers: Answers,
        contested: Container[int],
    ) -> None:
        self._plan, self._ends, self._contested = plan, ends, contested
        self._wanted = {name: number for number, name in answers.names.items()}
        self._names = answers.names
        self._ids, self._numbers = set[str](), set[TopicNumber]()
        self._given = set[str]()
        self.unnumbered: list[str] = []
        """Topics that are alive whose tables say no number."""

    def add(self, table: FoundTable) -> None:
        facts = table.facts
        if facts.id in self._ids:
            self._plan.remarks.append(
                f"{table.path} is another table of {facts.name}, and is left alone"
            )
            return
        self._ids.add(facts.id)
        number = self._number(table)
        is_served = not table.is_deleted
        if is_served:
            self._given.add(facts.name)
        topic = Topic(
            number,
            bytes.fromhex(facts.id),
            facts.name,
            max(table.partitions, _partitions(number, self._ends)),
            self._configs(table),
        )
        self._plan.topics.append(
            PlannedTopic(
                topic, table.log_starts, table.ends, table.is_deleted, table.created_ms
            )
        )

    def _number(self, table: FoundTable) -> TopicNumber:
        facts, plan = table.facts, self._plan
        said = None if facts.number is None else TopicNumber(facts.number)
        if said in self._contested:
            plan.problems.append(
                f"{table.path} says that topic {facts.name} has the number {said}, and "
                "so does another table: neither is believed"
            )
            said = None
        wanted = None if table.is_deleted else self._wanted.get(facts.name)
        if said is not None and wanted not in (None, said):
            plan.unanswered.append(
                f"topic {facts.name} has the number {said}, as its table says: "
                f"{wanted} is not its"
            )
        number = said or wanted
        if number is not None and number not in self._numbers:
            self._numbers.add(number)
            return number
        if number is not None:
            plan.unanswered.append(
                f"topic {facts.name} cannot have the number {number}: another one has"
            )
        elif not table.is_deleted:
            self.unnumbered.append(facts.name)
        return self._new_number()

    def _new_number(self) -> TopicNumber:
        plan = self._plan
        plan.last_number = number = TopicNumber(plan.last_number + 1)
        self._numbers.add(number)
        return number

    def _configs(self, table: FoundTable) -> dict[str, str]:
        """What the table says and this program takes; the rest is remarked."""
        facts, kept = table.facts, dict[str, str]()
        if facts.configs is None and not table.is_deleted:
            self._plan.remarks.append(
                f"the table of topic {facts.name} says nothing of its configurations: "
                "it has the broker's defaults now"
            )
        for key, value in (facts.configs or {}).items():
            try:
                kept |= validate({key: value})
            except KafkaError as error:
                self._plan.remarks.append(
                    f"topic {facts.name} loses {key}={value}: {error}"
                )
        return kept

    def add_named(self, new_id: Callable[[], bytes], nameless: Container[str]) -> None:
        """Topics of which there are segments alone, and a name by the operator. A table
        in its place of which nobody can read whose it is may be its own: with another
        id that would be set aside once it can be read, with all its records."""
        plan = self._plan
        for number, name in sorted(self._names.items()):
            if name in self._given:
                continue
            try:
                names.validate(name)
            except KafkaError as error:
                plan.unanswered.append(f"{name!r} cannot be a topic: {error}")
                continue
            if directory_name(name) in nameless:
                plan.unanswered.append(
                    f"the table in the place of topic {name} cannot be read, or has "
                    "lost the link from there, and may be its own: put its log right, "
                    "or move that directory away, or make the link, first"
                )
                continue
            if number in self._numbers or not _partitions(number, self._ends):
                why = "another topic has" if number in self._numbers else "nothing has"
                plan.unanswered.append(f"topic {name}: {why} the number {number}")
                continue
            partitions = _partitions(number, self._ends)
            topic = Topic(number, new_id(), name, partitions)
            plan.topics.append(PlannedTopic(topic, {}, {}))
            plan.remarks.append(
                f"topic {name} has no table: it gets a new id, the broker's defaults "
                f"and as many partitions as the log knows of ({partitions})"
            )


def _contested(tables: FoundTables) -> set[int]:
    """The numbers that tables of several topics say: a catalog was lost before, or a
    table is a copy out of another directory. Whose the records of segments are nobody
    knows then."""
    ids = defaultdict[int, set[str]](set)
    for one in tables.tables:
        if one.facts.number is not None:
            ids[one.facts.number].add(one.facts.id)
    return {number for number, said in ids.items() if len(said) > 1}


def _partitions(number: TopicNumber, ends: Iterable[TopicPartition]) -> int:
    """How many partitions the log knows of at least."""
    return max((p + 1 for n, p in ends if n == number), default=0)


def _ask(
    plan: Plan,
    held: Mapping[TopicPartition, Range],
    answers: Answers,
    unnumbered: Sequence[str],
) -> None:
    """Of what segments hold that is no planned topic's the operator has to say whose it
    is; unless a number is left."""
    known = {one.topic.number for one in plan.topics}
    for number in sorted({number for number, _ in held} - known):
        ranges = ", ".join(
            f"partition {p}: offsets {first} to {end - 1}"
            for (n, p), (first, end) in sorted(held.items())
            if n == number
        )
        what = f"no table is of number {number}, and the log has its records ({ranges})"
        if number in answers.left:
            plan.remarks.append(f"{what}: they are given up")
            continue
        hint = f"; {', '.join(unnumbered)} say none" if unnumbered else ""
        plan.unanswered.append(
            f"{what}{hint}: name it with --topic {number}=NAME, or give its records up "
            f"with --leave {number}"
        )
