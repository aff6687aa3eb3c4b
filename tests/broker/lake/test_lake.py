"""What the tables are to the rest of the broker, asked without waiting."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import deltalake
import pytest

from broker.ids import TopicNumber
from broker.lake.cold import ColdRead, Searched
from broker.lake.follower import Follower
from broker.lake.lake import Lake
from broker.lake.table import TopicTable
from broker.topics.topic import Topic
from lakehouse.location import table_path
from lakehouse.log.delta_log import entry_path
from tests.support.lake_following import version_of
from tests.support.patience import wait_until
from tests.support.tables import TOPIC_ID, Writer

TOPIC = Topic(TopicNumber(7), bytes.fromhex(TOPIC_ID), "orders", 2)
NUMBER = TOPIC.number


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """It follows a topic, and looks at its table when it is told to."""
    made = Lake(tmp_path, call_soon=lambda _: None, follow_ms=3_600_000)
    made.start([TOPIC])
    yield made
    made.close()


def table_of(lake: Lake) -> TopicTable:
    table = lake._follower.get(NUMBER)
    assert table is not None
    return table


def spoil(writer: Writer, version: int) -> Path:
    """An owner's commit that nobody here can read."""
    entry = Path(entry_path(writer.path, version))
    entry.write_text('{"protocol":{"minReaderVersion":4,"minWriterVersion":7}}')
    return entry


def test_what_stands_in_the_table_is_told_by_partition(
    lake: Lake, tmp_path: Path
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(1, 5, 25)
    table_of(lake).poll()
    assert [lake.table_end(NUMBER, p) for p in (0, 1, 2)] == [10, 25, 0]
    assert version_of(lake, NUMBER) == 2
    (file,) = lake.files(NUMBER, 1)
    assert (file.first_offset, file.last_offset) == (5, 24)
    size = os.path.getsize(Path(writer.path, file.relative_path))
    assert lake.table_bytes(NUMBER, 1) == file.size == size
    assert lake.table_bytes(NUMBER, 2) == 0
    assert lake.verified_ends(NUMBER) == {0: 10, 1: 25}
    assert (lake.problems(), lake.unverified(), lake.lacking(NUMBER)) == ([], [], {})


def test_of_a_topic_that_is_not_followed_there_is_nothing(lake: Lake) -> None:
    async def story(number: TopicNumber) -> None:
        assert await lake.read(number, 0, 3, 100) == ColdRead([], 3)
        assert await lake.find_timestamp(number, 0, 1) == Searched(None, 0)
        assert await lake.max_timestamp(number, 0) == Searched(None, 0)

    nobody = TopicNumber(8)
    asyncio.run(story(nobody))
    assert (lake.table_end(nobody, 0), version_of(lake, nobody)) == (0, -1)
    assert (lake.verified_ends(nobody), lake.lacking(nobody)) == ({}, {})


def test_a_topic_is_followed_from_its_creation_to_its_deletion(
    lake: Lake, tmp_path: Path
) -> None:
    other = Topic(TopicNumber(9), b"o" * 16, "other", 1)
    lake.topic_created(other)
    found = lake._follower.get(other.number)
    assert found is not None
    found.poll()
    writer = Writer(str(tmp_path), "other", other.id.hex())
    writer.add(0, 0, 10)
    found.poll()
    deltalake.DeltaTable(writer.path).delete("offset < 5")
    found.poll()
    assert lake.table_end(other.number, 0) == 10
    assert lake.verified_ends(other.number) == {0: 10}
    assert lake.take_changed() == [other.number]
    lake.topic_deleted(other)
    assert lake.table_end(other.number, 0) == 0
    assert lake.verified_ends(other.number) == {}
    assert (other.number in lake._verifiers, lake._changes) == (False, {})


def test_an_owners_change_is_told_once_and_when_the_table_can_be_read(
    lake: Lake, tmp_path: Path
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table_of(lake).poll()
    assert lake.take_changed() == []
    for offset in (5, 7):
        deltalake.DeltaTable(writer.path).delete(f"offset < {offset}")
        table_of(lake).poll()
        assert lake.take_changed() == [NUMBER]
        assert lake.take_changed() == []
    deltalake.DeltaTable(writer.path).delete("offset < 8")
    spoilt = spoil(writer, 5)
    table_of(lake).poll()
    assert lake.take_changed() == []
    spoilt.unlink()
    table_of(lake).reload()
    assert lake.take_changed() == [NUMBER]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_the_log_of_one_table_holds_up_no_other(
    tmp_path: Path, make: Callable[[str], None]
) -> None:
    """One thread goes around all tables; who opens a FIFO waits for a writer."""
    other = Topic(TopicNumber(8), b"o" * 16, "other", 1)
    writers = [Writer(str(tmp_path)), Writer(str(tmp_path), "other", other.id.hex())]
    for writer in writers:
        writer.add(0, 0, 10)
    lake = Lake(tmp_path, call_soon=lambda _: None, follow_ms=10)
    lake.start([TOPIC, other])
    try:
        entry = entry_path(writers[0].path, 2)
        make(entry)
        wait_until(lambda: lake.problems() != [])
        assert f"{entry} is no file but" in lake.problems()[0]
        writers[1].add(0, 10, 20)
        wait_until(lambda: lake.table_end(other.number, 0) == 20)
        assert lake.table_end(NUMBER, 0) == 10
        os.rename(entry, f"{entry}.away")
        wait_until(lambda: lake.problems() == [])
    finally:
        lake.close()


def test_why_records_are_missing_is_one_sentence(lake: Lake, tmp_path: Path) -> None:
    path = table_path(str(tmp_path), "orders")
    assert lake.why_missing(NUMBER, 0) == f"there is no table at {path}"
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table_of(lake).poll()
    assert lake.why_missing(NUMBER, 0) == "the table's commits end at offset 10"
    assert lake.why_missing(NUMBER, 1) == "the table's commits end at offset 0"
    entry = Path(entry_path(writer.path, 2))
    entry.write_text("")
    table_of(lake).poll()
    why = lake.why_missing(NUMBER, 0)
    assert why.startswith("the table's commits end at offset 10, and ")
    assert (lake.unreadable(NUMBER), lake.unreadable_topics()) == (None, {})
    entry.unlink()
    spoil(writer, 2)
    table_of(lake).poll()
    why = lake.why_missing(NUMBER, 0)
    assert lake.unreadable(NUMBER) == why
    assert lake.unreadable_topics() == {NUMBER: why}
    assert lake.problems() == [f"the table {path} cannot be read: {why}"]
    assert lake.verified_ends(NUMBER) == {}


def test_a_table_that_lacks_a_file_is_a_problem(lake: Lake, tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    table_of(lake).poll()
    first, _ = lake.files(NUMBER, 0)
    Path(writer.path, first.relative_path).unlink()
    assert lake.problems() == []  # nobody has looked
    assert lake.verified_ends(NUMBER) == {0: 20}
    assert lake.lacking(NUMBER) == {0: [(0, 10)]}
    assert lake.unverified() == [NUMBER]
    assert "lacks 1 of its data files" in "".join(lake.problems())


def test_who_wants_to_know_hears_of_each_advance_on_the_loop(tmp_path: Path) -> None:
    Writer(str(tmp_path)).add(0, 0, 10)
    told = list[TopicNumber]()
    lake = Lake(
        tmp_path, call_soon=lambda call: call(), on_advance=told.append,
        follow_ms=3_600_000,
    )  # fmt: skip
    lake.start([])
    try:
        lake.topic_created(TOPIC)
        for _ in range(2):  # of the second there is nothing to tell
            lake._follower._round(catch_up=False)
            assert told == [NUMBER]
    finally:
        lake.close()


def test_a_close_leaves_no_thread(tmp_path: Path) -> None:
    Writer(str(tmp_path)).add(0, 0, 10)
    before = set(threading.enumerate())

    async def story() -> None:
        lake = Lake(tmp_path, call_soon=lambda _: None, follow_ms=3_600_000)
        lake.start([TOPIC])
        assert (await lake.read(NUMBER, 0, 0, 100)).batches
        assert set(threading.enumerate()) - before
        lake.close()

    asyncio.run(story())
    assert set(threading.enumerate()) <= before


def test_who_asks_for_problems_looks_at_tables_that_have_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A status is written each second, and of thousands of tables few have any."""
    topics = [
        Topic(TopicNumber(n), bytes.fromhex(TOPIC_ID), f"t{n}", 1) for n in range(20)
    ]
    writers = [Writer(str(tmp_path), topic.name) for topic in topics]
    lake = Lake(tmp_path, call_soon=lambda _: None, follow_ms=3_600_000)
    lake.start(topics)
    lake.take_changed()
    lake.problems()  # what was taken is forgotten by the next who asks
    looked_at: list[int] = []
    get = Follower.get

    def counted(follower: Follower, number: TopicNumber) -> TopicTable | None:
        looked_at.append(number)
        return get(follower, number)

    def asked() -> tuple[list[str], dict[TopicNumber, str], list[TopicNumber]]:
        return lake.problems(), lake.unserved_topics(), lake.take_changed()

    monkeypatch.setattr(Follower, "get", counted)
    try:
        asked()
        assert not looked_at
        table = get(lake._follower, TopicNumber(13))
        assert table is not None
        entry = spoil(writers[13], 1)
        table.poll()
        problems, unserved, _ = asked()
        assert (len(problems), [*unserved], set(looked_at)) == (1, [13], {13})
        entry.unlink()
        table.reload()
        assert asked()[:2] == ([], {})
        lake.problems()
        looked_at.clear()
        assert asked() == ([], {}, [])
        assert not looked_at
    finally:
        lake.close()
