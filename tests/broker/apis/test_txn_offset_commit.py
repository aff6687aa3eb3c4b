"""TxnOffsetCommit, over the wire: pending, fenced, and the group's when it is over."""

import asyncio
from dataclasses import replace

import pytest

from broker.dispatch.turns import ITEMS_A_TURN
from broker.groups.offsets import Committed
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from broker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.runtime.coordination.coordinator_offsets import CHANGED_A_TURN
from tests.support.coordinating import FLIGHTS, House, housed, story
from tests.support.members import a_join, joined, stable
from tests.support.transactional import Transactional

VERSIONS = range(6)
WITH_MEMBERS = range(3, 6)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def at(index: int, offset: int = 5, **fields) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(index, offset, **fields)


def asked(producer: Transactional, *partitions, **fields) -> TxnOffsetCommitRequest:
    topic = TxnOffsetCommitRequestTopic(FLIGHTS.name, list(partitions or (at(0),)))
    named = {
        "transactional_id": producer.transactional_id,
        "group_id": "g",
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "topics": [topic],
    }
    return TxnOffsetCommitRequest(**named | fields)


async def codes(house: House, request: TxnOffsetCommitRequest, version: int) -> list:
    answer = await house.ask(request, version)
    return [p.error_code for topic in answer.topics for p in topic.partitions]


async def begun(house: House, *parts: str) -> Transactional:
    producer = await Transactional.begun(house.broker)
    await producer.add(*(parts or ("g",)))
    return producer


async def fetched(house: House, *, stable: bool) -> list[tuple[int, int]]:
    topics = [OffsetFetchRequestTopic("flights", [0])]
    request = OffsetFetchRequest("g", topics, require_stable=stable)
    answer = await house.ask(request, 7)
    return [
        (p.committed_offset, p.error_code) for t in answer.topics for p in t.partitions
    ]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_pending_until_the_transaction_ends(tmp_path, version, commit):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            one = at(0, 5, committed_metadata="m", committed_leader_epoch=3)
            assert await codes(house, asked(producer, one), version) == [0]
            assert await fetched(house, stable=False) == [(-1, 0)]
            unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert await fetched(house, stable=True) == [(-1, unstable)]
            at_ms = house.clock.now_ms()
        async with housed(tmp_path, house.clock) as house:  # it was durable
            assert await fetched(house, stable=True) == [(-1, unstable)]
            producer = replace(producer, broker=house.broker)
            await producer.end(commit)
            offset = 5 if commit else -1
            assert await fetched(house, stable=True) == [(offset, 0)]
            epoch = 3 if version >= 2 else -1
            committed = {FLIGHTS.key(0): Committed(5, epoch, "m", at_ms)}
            assert house.groups.fetch("g") == (committed if commit else {})

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_is_not_the_transactions_producer_is_refused(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            old = await begun(house)
            await old.end(commit=False)
            producer = await begun(house)

            async def code(request):
                (only,) = await codes(house, request, version)
                return only

            fenced = ErrorCode.INVALID_PRODUCER_EPOCH
            assert await code(asked(old)) == fenced
            assert await code(asked(producer, producer_epoch=9)) == fenced
            mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert await code(asked(producer, producer_id=4_711)) == mapping
            assert await code(asked(producer, transactional_id="other")) == mapping
            nameless = asked(producer, transactional_id="")
            assert await code(nameless) == ErrorCode.INVALID_REQUEST
            nowhere = asked(producer, group_id="")
            assert await code(nowhere) == ErrorCode.INVALID_GROUP_ID
            assert not house.groups.offsets.unstable("g")
            if version >= 5:
                return  # its group joins by itself
            stranger = asked(producer, group_id="not added")
            never = (
                ErrorCode.INVALID_TXN_STATE
                if version < 4
                else ErrorCode.TRANSACTION_ABORTABLE
            )
            assert await code(stranger) == never
            assert not house.groups.exists("not added")

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_cannot_be_committed_fails_alone(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            long = at(1, committed_metadata="x" * 4_097)
            request = asked(producer, at(0), at(3), at(-1), long)
            request.topics.append(TxnOffsetCommitRequestTopic("nope", [at(0)]))
            too_long = ErrorCode.OFFSET_METADATA_TOO_LARGE
            told = [0, UNKNOWN, UNKNOWN, too_long, UNKNOWN]
            assert await codes(house, request, version) == told
            (unstable,) = house.groups.offsets.unstable("g")
            assert set(unstable) == {FLIGHTS.key(0)}
            request.producer_epoch = 9
            fenced = ErrorCode.INVALID_PRODUCER_EPOCH
            told = [fenced, UNKNOWN, UNKNOWN, fenced, UNKNOWN]
            assert await codes(house, request, version) == told

    story(play)


def test_where_nothing_is_known_nothing_else_is_looked_at(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            nowhere = asked(producer, at(3), producer_epoch=9)
            assert await codes(house, nowhere, 5) == [UNKNOWN]
            assert await codes(house, asked(producer, topics=[]), 5) == []

    story(play)


@pytest.mark.parametrize("version", WITH_MEMBERS)
def test_members_commit_in_their_generation_and_nobody_else(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            member = await stable(house)

            async def code(generation, member_id, **fields):
                named = {"generation_id": generation, "member_id": member_id}
                request = asked(producer, **named | fields)
                (only,) = await codes(house, request, version)
                return only

            assert await code(1, member) == ErrorCode.NONE
            assert await code(-1, "") == ErrorCode.NONE  # before KIP-447
            assert await code(2, member) == ErrorCode.ILLEGAL_GENERATION
            assert await code(-1, member) == ErrorCode.ILLEGAL_GENERATION
            assert await code(1, "x") == ErrorCode.UNKNOWN_MEMBER_ID
            assert await code(1, "") == ErrorCode.UNKNOWN_MEMBER_ID
            instance = {"group_instance_id": "i"}
            assert await code(1, member, **instance) == ErrorCode.UNKNOWN_MEMBER_ID
            parked = await house.asking(a_join(), 3)
            assert await code(1, member) == ErrorCode.NONE
            await house.ask(a_join(member), 3)
            await parked
            assert await code(2, member) == ErrorCode.NONE  # and nobody has synced

    story(play)


@pytest.mark.parametrize("version", WITH_MEMBERS)
def test_a_static_member_is_fenced_by_its_instance(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            answer = await house.ask(a_join(group_instance_id="i"), 5)
            member, fields = answer.member_id, {"group_instance_id": "i"}
            fields["generation_id"] = 1
            mine = asked(producer, member_id=member, **fields)
            assert await codes(house, mine, version) == [ErrorCode.NONE]
            another = asked(producer, member_id="old", **fields)
            fenced = [ErrorCode.FENCED_INSTANCE_ID]
            assert await codes(house, another, version) == fenced

    story(play)


@pytest.mark.parametrize("version", WITH_MEMBERS)
def test_a_generation_of_a_group_nobody_knows_is_illegal(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            request = asked(producer, generation_id=1, member_id="m")
            illegal = [ErrorCode.ILLEGAL_GENERATION]
            assert await codes(house, request, version) == illegal
            assert not house.groups.exists("g")

    story(play)


@pytest.mark.parametrize("version", [0, 5])
def test_names_of_any_letters_and_the_greatest_length_are_kept(tmp_path, version):
    async def play():
        name, group = "\x01\n'\";--\u00fc" * 2_000, "\x7f%\t\U0001f600" * 4_000
        async with housed(tmp_path) as house:
            producer = await Transactional.begun(house.broker, name)
            joined = AddOffsetsToTxnRequest(
                name, producer.producer_id, producer.producer_epoch, group
            )
            assert not (await house.ask(joined, min(version, 4))).error_code
            request = asked(producer, group_id=group)
            assert await codes(house, request, version) == [ErrorCode.NONE]
        async with housed(tmp_path) as house:
            await replace(producer, broker=house.broker).end(commit=True)
            assert house.groups.fetch(group)[FLIGHTS.key(0)].offset == 5

    story(play)


def test_a_group_that_is_pending_is_listed_and_can_be_deleted(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            await codes(house, asked(producer), 3)
            listed = await house.ask(ListGroupsRequest(), 4)
            found = [(g.group_id, g.group_state) for g in listed.groups]
            assert found == [("g", "Empty")]
            deleted = await house.ask(DeleteGroupsRequest(["g"]), 2)
            assert [one.error_code for one in deleted.results] == [0]
            assert not house.groups.exists("g")
            await producer.end(commit=True)
            assert not house.groups.exists("g")

    story(play)


@pytest.mark.parametrize("announced", [1, 2])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_group_joins_by_itself_where_version_2_is_announced(
    tmp_path, version, announced
):
    async def play():
        async with housed(tmp_path) as house:
            transactions = house.broker.transactions
            transactions.limits = replace(transactions.limits, version=announced)
            producer = await Transactional.begun(house.broker)
            (code,) = await codes(house, asked(producer), version)
            found = transactions.describe("x")
            if version >= 5 and announced >= 2:
                assert code == ErrorCode.NONE
                assert (found.groups, found.version) == ({"g"}, 2)
                await producer.end(commit=True, version=2)
                assert house.groups.fetch("g")[FLIGHTS.key(0)].offset == 5
            else:
                assert code in (48, 120)
                assert found.state == "Empty"

    story(play)


def test_who_may_not_join_by_itself_is_told_why(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            transactions = house.broker.transactions
            transactions.limits = replace(transactions.limits, version=2)
            producer = await Transactional.begun(house.broker)
            fenced = asked(producer, producer_epoch=9)
            refused = [ErrorCode.INVALID_PRODUCER_EPOCH]
            assert await codes(house, fenced, 5) == refused
            assert transactions.describe("x").state == "Empty"

    story(play)


def test_while_the_transaction_ends_nothing_is_committed_in_it(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            ending = producer.begin_end(commit=True)
            concurrent = [ErrorCode.CONCURRENT_TRANSACTIONS]
            assert await codes(house, asked(producer), 3) == concurrent
            await ending
            assert not house.groups.exists("g")

    story(play)


def test_what_was_begun_before_the_end_is_part_of_it(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            committing = await house.asking(asked(producer), 3)
            await producer.end(commit=True)
            answer = await committing
            assert answer.topics[0].partitions[0].error_code == 0
            assert house.groups.fetch("g")[FLIGHTS.key(0)].offset == 5

    story(play)


def test_who_is_fenced_while_a_large_commit_is_looked_at_commits_nothing(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            beyond = [at(9)] * ITEMS_A_TURN
            request = asked(producer, at(0), *beyond, at(1))
            large = asyncio.ensure_future(codes(house, request, 3))
            await asyncio.sleep(0)  # it has begun
            producer.begin_end(commit=False)
            concurrent = ErrorCode.CONCURRENT_TRANSACTIONS
            told = [concurrent, *[UNKNOWN] * len(beyond), concurrent]
            assert await large == told
            assert not house.groups.exists("g")

    story(play)


def test_without_room_clients_are_told_to_come_again(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=1) as house:
            producer = await begun(house)
            full = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            assert await codes(house, asked(producer), 3) == full
            assert not house.groups.exists("g")

    story(play)


def test_a_catalog_that_fails_is_told_per_partition(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            house.catalog.close()
            unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
            request = asked(producer, at(0), at(9))
            assert await codes(house, request, 3) == [unavailable, UNKNOWN]

    story(play)


def test_a_member_between_join_and_sync_may_commit_in_a_transaction(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await begun(house)
            member = await joined(house)
            request = asked(producer, generation_id=1, member_id=member)
            assert await codes(house, request, 3) == [ErrorCode.NONE]

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_would_wait_where_there_is_no_room_is_told_to_come_again(tmp_path, version):
    many = {FLIGHTS.key(n): Committed(1) for n in range(CHANGED_A_TURN + 1)}

    async def play():
        async with housed(tmp_path) as house:
            await house.groups.commit("g", many)
        async with housed(tmp_path, memory_bytes_max=1) as house:
            full = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            producer = await begun(house)
            done = house.groups.commit("g", many)
            assert await codes(house, asked(producer), version) == full
            await done

    story(play)
