"""Rows of groups: what is stored is read, and what is deleted is not."""

import asyncio
from functools import partial

from broker.catalog import groups as rows
from broker.catalog.catalog import Catalog
from broker.groups.commands import Refused, Written
from broker.groups.events import WriteBegan
from broker.groups.snapshot import GroupSnapshot
from broker.protocol.errors import ErrorCode
from broker.runtime.coordination.coordinator_members import delete, load, shape_of
from broker.runtime.coordination.journal import Journal
from tests.support.coordinating import story


def empty(generation: int) -> GroupSnapshot:
    return GroupSnapshot("consumer", generation, "", "", 5)


def store(journal: Journal, group_id: str, generation: int) -> None:
    event = WriteBegan(1, empty(generation))
    change = partial(shape_of(group_id).store, event=event)
    journal.write(lambda connection: change(connection), lambda error: None)


def test_the_last_store_of_each_group_counts(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            journal = Journal(catalog)
            for n in range(5):
                store(journal, "g", n)
            store(journal, "h", 7)
            store(journal, "i", 8)
            delete(journal, "i")
            delete(journal, "nobody")
            await journal.flush()
            assert dict(load(catalog)) == {"g": empty(4), "h": empty(7)}

    story(play)


def test_a_group_that_is_deleted_and_made_again_is_there(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            journal = Journal(catalog)
            store(journal, "g", 9)
            delete(journal, "g")
            await journal.flush()
            assert not dict(load(catalog))
            store(journal, "g", 9)
            delete(journal, "g")
            store(journal, "g", 1)
            await journal.flush()
            assert dict(load(catalog)) == {"g": empty(1)}

    story(play)


def test_a_row_that_cannot_be_read_is_left_out(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            journal = Journal(catalog)
            store(journal, "g", 1)
            await journal.flush()
            spoilt = catalog.submit(lambda c: rows.store(c, "h", "[1, 2"))
            await asyncio.wrap_future(spoilt)
            assert dict(load(catalog)) == {"g": empty(1)}

    story(play)


def test_a_machine_is_told_how_its_write_went():
    shape, event = shape_of("g"), WriteBegan(7, empty(1))
    assert shape.written(event, None) == Written(7, ErrorCode.NONE)
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shape.written(event, OSError()) == Written(7, unavailable)


def test_who_cannot_be_answered_is_sent_to_ask_again():
    async def play():
        ticket = asyncio.get_running_loop().create_future()
        shape_of("g").fail(ticket, OSError())
        assert await ticket == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    story(play)
