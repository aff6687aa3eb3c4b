"""Rows of groups: what is stored is read, and what is deleted is not."""

import asyncio

from broker.catalog import groups as rows
from broker.catalog.catalog import Catalog
from broker.groups.snapshot import GroupSnapshot
from broker.runtime.coordinator_members import StoredGroups
from broker.runtime.coordinator_offsets import CommittedOffsets
from broker.runtime.coordinator_writes import GroupWrites
from tests.support.coordinating import story


def empty(generation: int) -> GroupSnapshot:
    return GroupSnapshot("consumer", generation, "", "", 5)


def test_the_last_store_of_each_group_counts(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            groups = StoredGroups(GroupWrites(catalog))
            stores = [groups.store("g", empty(n)) for n in range(5)]
            stores += [groups.store("h", empty(7)), groups.store("i", empty(8))]
            await asyncio.gather(*stores, groups.delete("i"), groups.delete("nobody"))
            assert dict(groups.load()) == {"g": empty(4), "h": empty(7)}

    story(play)


def test_a_group_that_is_deleted_with_its_offsets_and_made_again_is_there(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            writes = GroupWrites(catalog)
            groups, offsets = StoredGroups(writes), CommittedOffsets(writes)
            changes = [groups.store("g", empty(9)), offsets.delete("g")]
            await asyncio.gather(*changes)
            assert not dict(groups.load())
            changes = [groups.store("g", empty(9)), offsets.delete("g")]
            await asyncio.gather(*changes, groups.store("g", empty(1)))
            assert dict(groups.load()) == {"g": empty(1)}

    story(play)


def test_a_row_that_cannot_be_read_is_left_out(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            groups = StoredGroups(GroupWrites(catalog))
            await groups.store("g", empty(1))
            spoilt = catalog.submit(lambda c: rows.store(c, "h", "[1, 2"))
            await asyncio.wrap_future(spoilt)
            assert dict(groups.load()) == {"g": empty(1)}

    story(play)
