"""The writer: one commit for all who wait, and nobody pays for another's failure."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine

from broker.catalog import producers, topics
from broker.catalog.catalog import Catalog
from broker.catalog.engine import WRITING, open_engine
from broker.catalog.writer import GROUP_MAX, Writer
from broker.protocol.errors import ErrorCode, KafkaError
from tests.support.patience import IDLE_S, wait_until


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    path = tmp_path / "catalog.db"
    Catalog.open(path).close()
    opened = open_engine(path, busy_ms=200)
    yield opened
    opened.dispose()


class Gate:
    """A change that holds the writer until it is opened, so that others gather."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, _: Connection) -> None:
        self.reached.set()
        assert self.opened.wait(IDLE_S)


def create(connection: Connection, name: str) -> int:
    topic_id = name.encode().ljust(16, b"-")
    return topics.create(connection, name, topic_id, 1, {}, 0).number


def test_changes_that_wait_are_one_commit_in_order(engine: Engine) -> None:
    writer, gate = Writer(engine), Gate()
    first = writer.submit(gate)
    assert gate.reached.wait(IDLE_S)
    waiting = [writer.submit(producers.next_block) for _ in range(100)]
    gate.opened.set()
    first.result(IDLE_S)
    starts = [future.result(IDLE_S).start for future in waiting]
    writer.close()
    assert starts == [at * producers.BLOCK for at in range(100)]
    assert writer.commits == 2


def test_a_group_is_bounded(engine: Engine) -> None:
    writer, gate = Writer(engine), Gate()
    writer.submit(gate)
    assert gate.reached.wait(IDLE_S)
    waiting = [writer.submit(lambda _: None) for _ in range(GROUP_MAX + 1)]
    gate.opened.set()
    for future in waiting:
        future.result(IDLE_S)
    writer.close()
    assert writer.commits == 3


def test_a_failing_change_takes_back_itself_alone(engine: Engine) -> None:
    def half_done(connection: Connection) -> None:
        create(connection, "half")
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "no")

    writer, gate = Writer(engine), Gate()
    writer.submit(gate)
    assert gate.reached.wait(IDLE_S)
    before = writer.submit(lambda c: create(c, "before"))
    failing = writer.submit(half_done)
    refused = writer.submit(lambda c: create(c, "before"))
    wrong = writer.submit(lambda c: c.exec_driver_sql("insert into nothing"))
    after = writer.submit(lambda c: create(c, "after"))
    gate.opened.set()
    before.result(IDLE_S)
    after.result(IDLE_S)
    errors = [future.exception(IDLE_S) for future in (failing, refused, wrong)]
    writer.close()
    assert [error.code for error in errors if isinstance(error, KafkaError)] == [
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ]
    with engine.connect() as connection:
        assert [t.name for t in topics.load(connection)] == ["before", "after"]


def test_a_result_comes_only_after_the_commit(engine: Engine) -> None:
    """Before the group's last change has run, nobody has a result."""
    writer, gate = Writer(engine), Gate()
    held = Gate()
    writer.submit(gate)
    assert gate.reached.wait(IDLE_S)
    early = writer.submit(lambda c: create(c, "early"))
    writer.submit(held)
    gate.opened.set()
    assert held.reached.wait(IDLE_S)
    assert not early.done()
    held.opened.set()
    early.result(IDLE_S)
    writer.close()


def test_a_failed_commit_fails_the_group_and_the_writer_lives(engine: Engine) -> None:
    writer = Writer(engine, patience_ms=200)
    with engine.execution_options(**{WRITING: True}).begin():
        blocked = writer.submit(lambda c: create(c, "blocked"))
        error = blocked.exception(IDLE_S)
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert writer.submit(lambda c: create(c, "free")).result(IDLE_S) == 1
    writer.close()


def test_a_full_disk_is_told_to_everybody(engine: Engine) -> None:
    writer, gate = Writer(engine), Gate()

    def no_room(connection: Connection) -> None:
        gate(connection)
        connection.exec_driver_sql("PRAGMA max_page_count=1")  # no more than now

    def large(connection: Connection) -> None:
        topics.create(connection, "large", bytes(16), 1, {"x": "y" * 10**6}, 0)

    writer.submit(no_room)
    assert gate.reached.wait(IDLE_S)
    neighbour = writer.submit(lambda c: create(c, "neighbour"))
    full = writer.submit(large)
    gate.opened.set()
    error = full.exception(IDLE_S)
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    told = neighbour.exception(IDLE_S)
    writer.close()
    with engine.connect() as connection:
        there = [topic.name for topic in topics.load(connection)]
    assert there == ([] if told else ["neighbour"])


def test_closing_commits_what_waits_and_refuses_the_rest(engine: Engine) -> None:
    writer, gate = Writer(engine), Gate()
    writer.submit(gate)
    assert gate.reached.wait(IDLE_S)
    waiting = writer.submit(lambda c: create(c, "waiting"))
    closing = threading.Thread(target=writer.close)
    closing.start()
    gate.opened.set()
    closing.join(IDLE_S)
    assert waiting.result(0) == 1
    with pytest.raises(KafkaError) as caught:
        writer.submit(lambda c: create(c, "late"))
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    writer.close()


def test_a_cancelled_change_is_not_made(engine: Engine) -> None:
    writer, gate = Writer(engine), Gate()
    writer.submit(gate)
    assert gate.reached.wait(IDLE_S)
    cancelled = writer.submit(lambda c: create(c, "cancelled"))
    kept = writer.submit(lambda c: create(c, "kept"))
    assert cancelled.cancel()
    gate.opened.set()
    kept.result(IDLE_S)
    writer.close()
    with engine.connect() as connection:
        assert [topic.name for topic in topics.load(connection)] == ["kept"]


def test_a_process_that_was_stopped_in_a_transaction_stalls_nobody_for_long(
    engine: Engine, tmp_path: Path
) -> None:
    writer = Writer(engine, patience_ms=200)
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as stopped:
        stopped.execute("BEGIN IMMEDIATE")
        for _ in range(3):
            with pytest.raises(KafkaError, match="locked") as refused:
                writer.submit(producers.next_block).result(IDLE_S)
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert writer.trouble == "another process holds the catalog's write lock"
        stopped.rollback()
    assert writer.submit(producers.next_block).result(IDLE_S).start == 0
    assert writer.trouble is None
    writer.close()


def test_a_lock_that_is_free_again_is_noticed_while_nobody_writes(
    engine: Engine, tmp_path: Path
) -> None:
    writer = Writer(engine, patience_ms=50)
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as stopped:
        stopped.execute("BEGIN IMMEDIATE")
        with pytest.raises(KafkaError, match="locked"):
            writer.submit(producers.next_block).result(IDLE_S)
        assert writer.trouble is not None
        stopped.rollback()
    wait_until(lambda: writer.trouble is None)
    assert writer.commits == 0
    writer.close()


def test_a_lock_that_is_held_for_a_moment_is_waited_for(
    engine: Engine, tmp_path: Path
) -> None:
    writer = Writer(engine, patience_ms=int(IDLE_S * 1000))
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = writer.submit(producers.next_block)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        other.rollback()
    assert waiting.result(IDLE_S).start == 0
    assert writer.trouble is None
    writer.close()


def test_who_needs_no_result_is_told_the_end_alone(engine: Engine) -> None:
    told: list[tuple[str, BaseException | None]] = []
    writer, gate = Writer(engine), Gate()

    def wrong(_: Connection) -> None:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "no")

    def faulty(_: BaseException | None) -> None:
        raise RuntimeError("whoever is told must not end the thread")

    writer.submit(gate)
    assert gate.reached.wait(IDLE_S)
    writer.write(lambda c: create(c, "first"), lambda end: told.append(("first", end)))
    writer.write(wrong, lambda end: told.append(("wrong", end)))
    writer.write(lambda _: None, faulty)
    writer.write(lambda _: None, lambda end: told.append(("last", end)))
    after = writer.submit(lambda c: [one.name for one in topics.load(c)])
    assert not told
    gate.opened.set()
    assert after.result(IDLE_S) == ["first"]
    writer.close()
    ends = dict(told)
    assert (ends["first"], ends["last"]) == (None, None)
    assert isinstance(ends["wrong"], KafkaError)
    with pytest.raises(KafkaError):
        writer.write(lambda _: None, faulty)
    assert writer.commits == 2


def test_a_failed_commit_is_told_to_all_who_wait(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[BaseException | None] = []
    writer, gate = Writer(engine), Gate()
    writer.submit(gate)
    assert gate.reached.wait(IDLE_S)
    for _ in range(2):
        writer.write(lambda _: None, told.append)

    def broken(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("broker.catalog.writer._run_all", broken)
    gate.opened.set()
    writer.close()
    assert [type(error) for error in told] == [KafkaError] * 2
    assert all("no space" in str(error) for error in told)


def test_what_the_driver_raises_is_told_as_a_failure_of_storage(
    engine: Engine,
) -> None:
    """A change that goes past SQLAlchemy, and one that loses the transaction."""
    writer, gate = Writer(engine), Gate()

    def wrong(connection: Connection) -> None:
        connection.connection.cursor().execute("insert into nothing values (1)")

    def loses_all(connection: Connection) -> None:
        connection.connection.cursor().execute("rollback")

    writer.submit(gate)
    assert gate.reached.wait(IDLE_S)
    asked = [writer.submit(wrong)]
    asked += [writer.submit(loses_all), writer.submit(lambda c: None)]
    gate.opened.set()
    errors = [future.exception(IDLE_S) for future in asked]
    assert [error.code for error in errors if isinstance(error, KafkaError)] == [
        ErrorCode.KAFKA_STORAGE_ERROR
    ] * 3
    assert writer.submit(lambda c: create(c, "later")).result(IDLE_S) == 1
    writer.close()
