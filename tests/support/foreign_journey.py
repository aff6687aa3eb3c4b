"""The journey that every foreign client makes, and what its row of the table says.

A cell that failed says so, and the next one is tried all the same.
"""

import random
import re
import time
from collections.abc import Callable

from confluent_kafka import Producer

from tests.support.confluent import create, produce_all
from tests.support.foreign import Client, Driver, Headers, Read, Row, Site, line
from tests.support.foreign_rows import FAILED, failed, write_down
from tests.support.patience import IDLE_S
from tests.support.readers import consumed

LARGE = random.Random(0).randbytes(900_000)  # no codec makes less of it
ROWS: list[Row] = [
    (b"k", b"v" * 100, [("a", b"1"), ("a", b"2"), ("empty", b"")]),
    (None, b"no key", []),
    (b"tombstone", None, []),
    (b"", b"", [("bytes", bytes(range(256)))]),
    (b"large", LARGE, []),
]
PARTITIONS = set(range(4))
ABSENT = "-"
IN_SHORT = ("produce", "start", "group")


class Journey:
    """One client's; ``run`` gives its cells."""

    def __init__(self, site: Site, client: Client, command: tuple[str, ...]) -> None:
        self._site, self._client, self._command = site, client, command
        self._topic = re.sub(r"\W+", "-", f"{client}")
        self._reads: list[tuple[str, str, str, list[Read]]] = []
        self._topics: list[str] = []

    def run(self, only: tuple[str, ...] = ()) -> dict[str, str]:
        """Each step's cell; ``only`` those that are named."""
        steps: dict[str, Callable[[], str]] = {
            "produce": self._produce,
            "start": self._from_start,
            "time": self._by_time,
            "group": self._group,
            "transactions": self._transactions,
            "table": self._table,
            "restart": self._restart,
        }
        named = only or tuple(steps)
        return {name: self._cell(name, steps[name]) for name in named}

    def _cell(self, name: str, step: Callable[[], str]) -> str:
        if name in self._client.lacks:
            return ABSENT
        try:
            return step()
        except Exception as error:
            return failed(error)

    def _new_topic(self, name: str, partitions: int = 1) -> str:
        topic = f"{self._topic}-{name}"
        create(self._site.bootstrap, topic, partitions)
        self._topics.append(topic)
        return topic

    def _drive(self, verb: str, topic: str, *words: str) -> Driver:
        return Driver(*self._command, verb, self._site.bootstrap, topic, *words)

    def _read(self, topic: str, start: str, level: str, wanted: list[Read]) -> None:
        """Read as many as are wanted, and compare."""
        with self._drive("fetch", topic, start, str(len(wanted)), level) as driver:
            driver.wait(lambda: len(driver.records) >= len(wanted))
            driver.close()
            _same(driver.records, [self._as_told(record) for record in wanted])

    def _as_told(self, record: Read) -> Read:
        """As the library tells it; the others read that what it wrote is all there."""
        if "empty bytes" not in self._client.lacks:
            return record
        partition, offset, key, value, headers = record
        told = [(name, one or None) for name, one in headers]
        return partition, offset, key or None, value or None, told

    def _remember(self, topic: str, start: str, level: str, wanted: list[Read]) -> None:
        """Read now, and again out of the table and after a restart."""
        self._read(topic, start, level, wanted)
        self._reads.append((topic, start, level, wanted))

    def _again(self) -> str:
        for topic, start, level, wanted in self._reads:
            self._read(topic, start, level, wanted)
        return "yes"

    def _rows(self) -> list[Row]:
        return [(k, v, self._headers(headers)) for k, v, headers in ROWS]

    def _headers(self, headers: Headers) -> Headers:
        """Those that the library has."""
        if "headers" in self._client.lacks:
            return []
        once = "repeated headers" in self._client.lacks
        return list(dict(headers).items()) if once else headers

    def _produce(self) -> str:
        topic = self._new_topic("records")
        for codec in self._client.codecs:
            with self._drive("produce", topic, codec, "-") as driver:
                driver.ask(*map(line, self._rows()), "flush")
                driver.close()
        _same(_all_of(self._site.bootstrap, topic), self._written())
        headers = "" if "headers" in self._client.lacks else "; headers"
        return ", ".join(self._client.codecs) + headers

    def _written(self) -> list[Read]:
        rows = self._rows() * len(self._client.codecs)
        return [(0, offset, *row) for offset, row in enumerate(rows)]

    def _from_start(self) -> str:
        self._remember(f"{self._topic}-records", "0", "uncommitted", self._written())
        empty = "empty bytes" in self._client.lacks
        return "yes, empty bytes as null" if empty else "yes"

    def _by_time(self) -> str:
        topic = self._new_topic("time")
        begin_ms = int(time.time() * 1000) - 3_600_000
        stamps = [begin_ms + 60_000 * minute for minute in range(10)]
        for minute, stamp in enumerate(stamps):
            _produce_at(self._site.bootstrap, topic, minute, stamp)
        later = [(0, n, None, b"%d" % n, []) for n in range(5, 10)]
        self._remember(topic, f"@{stamps[4] + 1}", "uncommitted", later)
        return "yes"

    def _transactions(self) -> str:
        topic = self._new_topic("transactions")
        first, second, third = (
            [(b"%d" % n, word * 10, []) for n in range(3)]
            for word in (b"first", b"aborted", b"third")
        )
        with self._drive("produce", topic, "none", f"{topic}-id") as driver:
            driver.ask("begin")
            driver.ask(*map(line, first), "commit")
            driver.ask("begin")
            driver.ask(*map(line, second), "flush")
            opened = _marked([first, second], {0, 1})
            self._read(topic, "0", "uncommitted", opened)  # no table has what aborts
            driver.ask("abort")
            driver.ask("begin")
            driver.ask(*map(line, third), "commit")
            driver.close()
        every = [first, second, third]
        self._remember(topic, "0", "committed", _marked(every, {0, 2}))
        return "yes"

    def _group(self) -> str:
        topic = self._new_topic("group", len(PARTITIONS))
        values = [b"%d" % n for n in range(84)]
        with self._member(topic) as first, self._member(topic) as second:
            first.wait(lambda: first.assigned | second.assigned == PARTITIONS)
            first.wait(lambda: _shared(first, second))
            # Not before: the other would read again what one has not committed.
            self._fill(topic, values[:40])
            both = [first, second]
            first.wait(lambda: _values(*both) >= set(values[:40]))
            first.ask("commit")
            second.ask("commit")
            first.close()
            second.wait(lambda: second.assigned == PARTITIONS)
            before = len(second.records)
            self._fill(topic, values[40:80])
            second.wait(lambda: _values(second) >= set(values[40:80]))
            assert len(second.records) == before + 40, "read again what was committed"
            second.ask("commit")
            second.close()
        self._fill(topic, values[80:])
        with self._member(topic) as third:
            third.wait(lambda: len(third.records) >= 4)
            assert _values(third) == set(values[80:])
            third.close()
        return "yes"

    def _member(self, topic: str) -> Driver:
        return self._drive("member", topic, topic)

    def _fill(self, topic: str, values: list[bytes]) -> None:
        rows = [(None, value, None, n % 4) for n, value in enumerate(values)]
        produce_all(self._site.bootstrap, topic, rows)

    def _table(self) -> str:
        assert self._reads or "start" in self._client.lacks, "nothing was read before"
        self._site.release(self._topics)
        if "start" in self._client.lacks:
            topic = f"{self._topic}-records"
            _same(_all_of(self._site.bootstrap, topic), self._written())
        return self._again()

    def _restart(self) -> str:
        """A producer and a member stay, and go on."""
        topic = self._new_topic("restart")
        rows: list[Row] = [(b"k", b"before", []), (b"k", b"after", [])]
        with self._drive("produce", topic, "none", "-") as producer:
            producer.ask(line(rows[0]), "flush")
            if "group" in self._client.lacks:
                self._site.restart()
                producer.ask(line(rows[1]), "flush")
            else:
                self._member_stays(topic, producer, line(rows[1]))
            producer.close()
        wanted = [(0, n, *row) for n, row in enumerate(rows)]
        _same(_all_of(self._site.bootstrap, topic), wanted)
        return self._again()

    def _member_stays(self, topic: str, producer: Driver, after: str) -> None:
        with self._member(topic) as member:
            member.wait(lambda: _values(member) == {b"before"})
            member.ask("commit")
            self._site.restart()
            producer.ask(after, "flush")
            member.wait(lambda: _values(member) == {b"before", b"after"})
            assert len(member.records) == 2, "read again what was committed"
            member.close()


def _shared(first: Driver, second: Driver) -> bool:
    """Whether each of two members has some of the partitions, and both have all."""
    one, other = first.assigned, second.assigned
    return bool(one and other) and one ^ other == PARTITIONS


def _values(*drivers: Driver) -> set[bytes | None]:
    return {record[3] for driver in drivers for record in driver.records}


def _marked(transactions: list[list[Row]], visible: set[int]) -> list[Read]:
    """What is read of transactions one after the other, each with its marker."""
    found: list[Read] = []
    offset = 0
    for number, rows in enumerate(transactions):
        if number in visible:
            found += [(0, offset + n, *row) for n, row in enumerate(rows)]
        offset += len(rows) + 1
    return found


def _all_of(bootstrap: str, topic: str) -> list[Read]:
    """What another client reads."""
    return [
        (row[0], row[1], row[4], row[5], [(name, value) for name, value in row[6]])
        for row in consumed(bootstrap, topic)
    ]


def _same(found: list[Read], wanted: list[Read]) -> None:
    """AssertionError that names the first record which differs."""
    for one, other in zip(found, wanted, strict=False):
        assert one == other, f"{_short(one)} instead of {_short(other)}"
    assert len(found) == len(wanted), f"{len(found)} records of {len(wanted)}"


def _short(record: Read) -> str:
    return repr(
        tuple(field[:20] if isinstance(field, bytes) else field for field in record)
    )


def _produce_at(bootstrap: str, topic: str, number: int, stamp_ms: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"%d" % number, partition=0, timestamp=stamp_ms)
    assert producer.flush(IDLE_S) == 0


def travel(site: Site, client: Client, command: tuple[str, ...]) -> None:
    """Make the journey, write the row, and fail as its cells did."""
    cells = Journey(site, client, command).run()
    write_down(client, cells)
    _assert_none_failed(cells)


def travel_in_short(site: Site, client: Client, command: tuple[str, ...]) -> None:
    """The steps that need a broker alone; no row is written."""
    _assert_none_failed(Journey(site, client, command).run(IN_SHORT))


def _assert_none_failed(cells: dict[str, str]) -> None:
    assert not {n: cell for n, cell in cells.items() if cell.startswith(FAILED)}
