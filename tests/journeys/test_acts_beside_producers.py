"""The table of owners' acts in ``lakehouse/README.md``, walked while records come.

A broker, a compactor that commits each second and merges three files, a producer that
goes on in all topics, a consumer that follows them, and the owner's real Spark. Each
act has a topic of its own, beside one that nobody touches. Each of his statements needs
two tries at most, or a hold where nobody can see it coming. In the short form the
compactor does the work of its Spark's workers itself.

How long a try takes depends on the machine, so an attempt is waited for as long as it
takes here; `test_owner_under_load` is the one with everybody's settings.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from broker.status.file import read
from broker.status.schema import BrokerStatus, CompactorStatus
from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs.check import check_data_directory
from jobs.extent import Extents, TopicExtent
from jobs.owners.statement import hold
from lakehouse.location import table_path
from lakehouse.log.delta_log import load_version, table_ends
from tests.support.acts_table import ROWS, Row, changed, is_as_said
from tests.support.confluent import create
from tests.support.owners_acts import (
    BEFORE,
    REFUSED_BY_DELTA,
    REMOVED,
    VALUE_COLUMN,
    Moment,
    Records,
    act,
    statements,
)
from tests.support.owners_tries import Starved, Tried, refusal, tried
from tests.support.patience import STUCK_S, Patience, wait_until
from tests.support.peer import values_by_offset
from tests.support.process import EagerPart
from tests.support.spark_reader import SparkReader
from tests.support.trickle import Follower, Trickle, value_at

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3600),
    pytest.mark.shared_out("owners", 4, whole=True),
]

AT_ONCE = (
    "DELETE",
    "MERGE with inserts",
    "RESTORE to before a round",
    "deletion vectors, and an UPDATE",
    "rm -rf",
)
"""The others are walked where long forms are."""
SETTINGS = (
    "wal.keep_ms=0",
    "wal.roll_ms=2000",
    "wal.idle_seal_ms=100",
    "lake.flush_ms=1000",
    "lake.flush_max_ms=1000",
    "lake.follow_ms=50",
    "lake.owner_wait_ms=600000",
)
TRIES_MAX = 2
REPLACED = "CREATE OR REPLACE TABLE"
GONE = {REPLACED, REMOVED}
LOST = re.compile(
    r"(.+)-0: offsets 0 to (\d+) are neither in the table nor in a segment"
)
UNSEEN = re.compile(r"RESTORE |ALTER TABLE \S+ ADD CONSTRAINT ")
"""They read all of a table, and write no file before their commit."""
UNTOUCHED, HOLD_MS = "untouched", 600_000
PASSING = "DELTA_CONCURRENT"
HALF, AHEAD = len(BEFORE) // 2, 20


def topic_of(row: Row) -> str:
    return re.sub(r"\W+", "-", row.act)


class House:
    """What runs, with a topic for each act; inside it records flow."""

    def __init__(self, data_dir: Path, rows: list[Row]) -> None:
        self.data_dir = data_dir
        self.topics = [*map(topic_of, rows), UNTOUCHED]
        self.gone = dict[str, set[int]]()
        self.since = dict[str, int]()
        """How many records were acknowledged when the act was done."""
        self.whole = not {row.act for row in rows} <= set(AT_ONCE)
        self._stack = ExitStack()

    def __enter__(self) -> "House":
        self.part = EagerPart(self.data_dir, *SETTINGS)
        self._stack.callback(self.part.end)
        if not self.whole:
            self.part.compactor.program[1] += ",in_process"
        self.part.start()
        for topic in self.topics:
            create(self.part.bootstrap, topic, **{"retention.ms": "-1"})
        self.flow = Trickle(self.part.bootstrap, self.topics)
        for _ in range(2):
            self.flow.send(HALF)
            self.compact()
            if not self.gone:
                self.half = {one: self.extent(one).version for one in self.topics}
                self.gone = {one: set() for one in self.topics}
        wait_until(lambda: self._in_log() >= len(BEFORE))
        self.follower = Follower(self.part.bootstrap, self.topics)
        self._stack.enter_context(self.follower)
        self._stack.enter_context(self.flow)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def compact(self, topics: list[str] | None = None) -> None:
        with closing(Extents(self.data_dir)) as extents:
            extents.compact(topics or self.topics, STUCK_S)

    def extent(self, topic: str) -> TopicExtent:
        with closing(Extents(self.data_dir)) as extents:
            return extents.of([topic])[0]

    def path(self, topic: str) -> str:
        return table_path(str(self.data_dir / "tables"), topic)

    def table_end(self, topic: str) -> int:
        return self.extent(topic).partitions[0].table_end or 0

    def _in_log(self) -> int:
        """The lowest offset that any segment has."""
        store = LocalSegmentStore(PosixFiles(), self.data_dir / "wal")
        found = [
            int(entries.base[0])
            for info in store.live()
            for entries in store.columns(info.sequence).values()
        ]
        return min(found, default=len(BEFORE))

    def told(self, topic: str) -> list[str]:
        """What compactor and broker say of a topic's table."""
        compactor = read(self.data_dir, CompactorStatus, time.time())
        broker = read(self.data_dir, BrokerStatus, time.time())
        assert compactor is not None
        assert broker is not None
        starts = (f"{topic} ", f"{topic}-0 ")
        said = [one for one in compactor.problems if one.startswith(starts)]
        return said + [state.why for state in broker.tables if state.topic == topic]

    def consumed(self, topic: str, first: int, end: int) -> Records | None:
        """Offset -> value of all that a consumer gets from ``first`` to before ``end``;
        None: an error."""
        found = values_by_offset(self.part.bootstrap, topic, first, end)
        if found is None:
            return None
        return {n: value for n, value in found.items() if first <= n < end}


@pytest.fixture(scope="module")
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    chosen = {
        item.callspec.params["row"]
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    }
    rows = [row for row in ROWS if row in chosen]
    with House(tmp_path_factory.mktemp("acts") / "data", rows) as house:
        yield house


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row, id=row.act, marks=() if row.act in AT_ONCE else pytest.mark.slow
        )
        for row in ROWS
    ],
)
def test_an_act_beside_producers_has_the_effect_that_the_table_says(
    house: House, analyst: SparkReader, row: Row
) -> None:
    topic = topic_of(row)
    moment = moment_of(house, topic)
    do(house, analyst, row, moment)
    wait_until(lambda: house.flow.acknowledged[topic] > moment.ahead)
    is_compacted_as_said(house, row, moment)
    wanted = left(house, row, moment)
    judge_consumers(house, row, wanted)
    wait_until(lambda: as_told(row, moment, house.told(topic)))
    if row.compaction == "goes on" and row.consumers != "an error":
        judge_table(house, analyst, row, wanted)


def moment_of(house: House, topic: str) -> Moment:
    """Records flow, some are in the table that came so; what is to be known now."""
    mark = house.flow.after_more(topic)
    wait_until(lambda: house.table_end(topic) >= mark)
    half, now = house.half[topic], house.extent(topic).version
    assert half is not None
    assert now is not None
    wait_until(lambda: len(house.follower.read[topic]) >= len(BEFORE))
    return Moment(half, now, house.flow.acknowledged[topic] + AHEAD)


def do(house: House, analyst: SparkReader, row: Row, moment: Moment) -> None:
    """The act, each statement until Delta takes it."""
    topic = topic_of(row)
    path, found = house.path(topic), list[Tried]()
    if row.act == REMOVED:
        act(row.act, analyst, path)
    elif row.act in REFUSED_BY_DELTA:
        for sql in statements(row.act, path, moment):
            assert refusal(analyst, sql) is not None
    else:
        for sql in statements(row.act, path, moment):
            found.append(done(house, analyst, topic, sql))
    house.since[topic] = house.flow.acknowledged[topic]
    print(row.act, [f"{one.count} in {one.seconds:.1f} s" for one in found])


def done(house: House, analyst: SparkReader, topic: str, sql: str) -> Tried:
    """A statement, at the second try at the latest; after these an owner holds his
    table for what nobody sees coming."""
    try:
        return tried(analyst, sql, PASSING, TRIES_MAX)
    except Starved:
        assert UNSEEN.match(sql), f"{sql} needs more than {TRIES_MAX} tries"
    with closing(Extents(house.data_dir)) as extents:
        hold(extents, house.data_dir, topic, HOLD_MS)
        found = tried(analyst, sql, PASSING, TRIES_MAX)
        extents.release(topic)
    return found


def is_compacted_as_said(house: House, row: Row, moment: Moment) -> None:
    """What comes from now on gets into the table, or does not; elsewhere it does."""
    topic = topic_of(row)
    mark, beside = house.flow.after_more(topic), house.flow.after_more(UNTOUCHED)
    if row.compaction == "goes on":
        wait_until(lambda: house.table_end(topic) >= mark)
    else:
        assert row.compaction == "stops"
        wait_until(lambda: as_told(row, moment, house.told(topic)))
    wait_until(lambda: house.table_end(UNTOUCHED) >= beside)
    if row.compaction == "stops":
        assert house.table_end(topic) < mark


def left(house: House, row: Row, moment: Moment) -> Records | None:
    """What consumers are to get of all that is acknowledged; None: an error."""
    topic = topic_of(row)
    wanted = {n: value_at(n) for n in range(house.flow.acknowledged[topic])}
    if row.consumers == "an error":
        return None
    changes = changes_of(house, row, moment)
    house.gone[topic] = {n for n, value in changes.items() if value is None}
    for offset, value in changes.items():
        if value is None:
            del wanted[offset]
        else:
            wanted[offset] = value
    return wanted


OPERATIONS = {
    "RESTORE after a DELETE": "RESTORE",
    "RESTORE to before a round": "RESTORE",
    "INSERT OVERWRITE": "WRITE",
}
"""What takes all that came since a version: as history calls it."""


def changes_of(house: House, row: Row, moment: Moment) -> dict[int, bytes | None]:
    topic = topic_of(row)
    operation = OPERATIONS.get(row.act)
    if operation is None:
        return changed(row.consumers, len(BEFORE))
    end = end_at(house, topic, version_of(house.path(topic), operation))
    back = end_at(house, topic, moment.now)
    since: dict[int, bytes | None] = dict.fromkeys(range(back, end))
    return since | changed(row.consumers, end)


def version_of(path: str, operation: str) -> int:
    """The version that an owner's operation made."""
    said = f'"operation":"{operation}"'
    entries = Path(path, "_delta_log").glob("*.json")
    return max(int(one.stem) for one in entries if said in one.read_text())


def end_at(house: House, topic: str, version: int) -> int:
    return table_ends(load_version(house.path(topic), version))[0]


def judge_consumers(house: House, row: Row, wanted: Records | None) -> None:
    """One who reads all of it now, one who reads what came since, one who followed."""
    topic, patience = topic_of(row), Patience()
    end = max(wanted) + 1 if wanted else len(BEFORE)
    while (found := house.consumed(topic, 0, end)) != wanted:
        assert patience.lasts(found), differing(found, wanted)
        time.sleep(0.05)
    new = house.flow.after_more(topic)
    judge_follower(house, topic)
    since = house.since[topic] if row.compaction == "stops" else new - 1
    came = {n: value_at(n) for n in range(since, new)}
    assert house.consumed(topic, since, new) == came


def differing(found: Records | None, wanted: Records | None) -> object:
    if found is None or wanted is None:
        return found is None, wanted is None
    return sorted(set(found.items()) ^ set(wanted.items()))[:10]


def judge_follower(house: House, topic: str) -> None:
    """Each record once and in order, but for what went before he was there."""
    end = house.flow.acknowledged[topic]
    seen = house.follower.read[topic]
    wait_until(lambda: seen and seen[-1][0] >= end - 1)
    got = list(seen)
    offsets = [offset for offset, _ in got]
    assert offsets == sorted(set(offsets))
    assert all(value == value_at(offset) for offset, value in got)
    assert set(range(end)) - set(offsets) <= house.gone[topic]


def judge_table(
    house: House, analyst: SparkReader, row: Row, wanted: Records | None
) -> None:
    assert wanted is not None
    value = VALUE_COLUMN.get(row.act, "value")
    path, end = house.path(topic_of(row)), max(wanted) + 1
    wait_until(lambda: house.table_end(topic_of(row)) >= end)
    rows = analyst.ask(
        f"SELECT offset, {value} FROM delta.`{path}` WHERE offset < {end}"
    )
    assert len(rows) == len(wanted)
    assert dict(map(tuple, rows)) == wanted


def as_told(row: Row, moment: Moment, told: list[str]) -> bool:
    return is_as_said(re.sub(r"\b25\b", str(moment.ahead), row.told), told)


def test_all_that_is_lost_at_the_end_was_in_tables_that_are_gone(house: House) -> None:
    status = json.loads((house.data_dir / "run" / "compactor.json").read_text())
    assert status["counters"]["merges_total"] > 0
    house.flow.end()
    judge_follower(house, UNTOUCHED)
    house.follower.end()
    stopped = {topic_of(row) for row in ROWS if row.compaction == "stops"}
    house.compact([topic for topic in house.topics if topic not in stopped])
    house.part.end()
    lost, replaced = {}, set()
    for problem in check_data_directory(house.data_dir).problems:
        if " was replaced in version " in problem:
            replaced.add(problem.partition(":")[0])
            continue
        match = LOST.fullmatch(problem)
        assert match, problem
        lost[match[1]] = int(match[2])
    acts = {topic_of(row): row.act for row in ROWS if topic_of(row) in house.topics}
    assert lost.keys() == {topic for topic, act in acts.items() if act in GONE}
    assert replaced == {topic for topic, act in acts.items() if act == REPLACED}
    assert all(last < house.since[topic] for topic, last in lost.items())
