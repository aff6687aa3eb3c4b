"""Events keep their order, fail alone, and are told on the loop when durable."""

import asyncio
from concurrent.futures import Future

import pytest
from structlog.testing import capture_logs

from broker.catalog.catalog import Catalog
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordination.journal import Journal
from tests.support.coordinating import story
from tests.support.patience import IDLE_S


class HeldCatalog:
    """A catalog that carries a change out and keeps its commit back."""

    def __init__(self) -> None:
        self.held: list[Future] = []

    def write(self, change, told) -> None:
        change(None)
        self.held.append(Future())
        self.held[-1].add_done_callback(lambda done: told(done.exception()))


def test_what_is_durable_is_told_and_nothing_before():
    async def play():
        catalog, made, told = HeldCatalog(), [], []
        journal = Journal(catalog)
        for number in range(3):
            journal.write(
                lambda _, number=number: made.append(number),
                lambda error, number=number: told.append((number, error)),
            )
        assert (made, told) == ([0, 1, 2], [])
        catalog.held[0].set_result(None)
        assert not told  # it is told in a turn of the loop, not by the catalog's thread
        await asyncio.sleep(0)
        assert told == [(0, None)]
        catalog.held[1].set_result(None)
        catalog.held[2].set_result(None)
        await journal.flush()
        assert told == [(0, None), (1, None), (2, None)]

    story(play)


def test_who_is_told_may_write_again():
    async def play():
        catalog, told = HeldCatalog(), []
        journal = Journal(catalog)

        def again(_) -> None:
            journal.write(lambda _: None, told.append)

        journal.write(lambda _: None, again)
        catalog.held[0].set_result(None)
        await asyncio.sleep(0)
        assert (len(catalog.held), told) == (2, [])
        catalog.held[1].set_result(None)
        await journal.flush()
        assert told == [None]

    story(play)


def test_a_fault_of_one_who_is_told_leaves_nobody_untold():
    async def play():
        catalog, told = HeldCatalog(), []
        journal = Journal(catalog)

        def faulty(_) -> None:
            raise ValueError("a fault")

        for done in (faulty, told.append):
            journal.write(lambda _: None, done)
        for commit in catalog.held:
            commit.set_result(None)
        await asyncio.sleep(0)
        assert told == [None]
        await asyncio.wait_for(journal.flush(), IDLE_S)

    story(play)


def test_a_failure_is_told_to_who_wrote_it_and_to_nobody_else(tmp_path):
    async def play():
        def broken(connection) -> None:
            connection.exec_driver_sql("insert into nowhere values (1)")

        with Catalog.open(tmp_path / "catalog.db") as catalog:
            journal, told = Journal(catalog), {}
            for number, change in enumerate([lambda _: None, broken, lambda _: None]):
                journal.write(
                    change, lambda error, number=number: told.update({number: error})
                )
            await journal.flush()
            assert told[0] is told[2] is None
            assert isinstance(told[1], KafkaError)
            assert told[1].code is ErrorCode.KAFKA_STORAGE_ERROR

    story(play)


def test_a_closed_catalog_is_told_later(tmp_path):
    async def play():
        catalog = Catalog.open(tmp_path / "catalog.db")
        catalog.close()
        journal, told = Journal(catalog), []
        journal.write(lambda _: None, told.append)
        assert not told
        await journal.flush()
        with pytest.raises(KafkaError):
            raise told[0]

    story(play)


def test_many_writes_are_all_told_in_order(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            journal, told = Journal(catalog), []
            for turn in range(10):
                for number in range(30):
                    one = turn, number
                    journal.write(
                        lambda _: None, lambda error, one=one: told.append(one)
                    )
                await asyncio.sleep(0)
            await journal.flush()
            assert told == [(turn, n) for turn in range(10) for n in range(30)]

    story(play)


def test_what_fails_together_is_one_line_in_the_log():
    """A full disk fails all that waited."""

    async def play():
        catalog, told = HeldCatalog(), []
        journal = Journal(catalog, "transactions")
        for _ in range(4):
            journal.write(lambda _: None, told.append)
        with capture_logs() as logs:
            catalog.held[0].set_result(None)
            for commit in catalog.held[1:3]:
                commit.set_exception(OSError("disk full"))
            await asyncio.sleep(0)
            catalog.held[3].set_exception(OSError("still full"))
            await asyncio.sleep(0)
        said = [(one["events"], one["error"]) for one in logs]
        assert said == [(2, "disk full"), (1, "still full")]
        assert {one["event"] for one in logs} == {"transactions could not be stored"}
        assert len(told) == 4

    story(play)
