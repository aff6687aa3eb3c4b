"""All groups together take so much and no more; who is here goes on."""

import asyncio
import struct
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from broker.groups.commands import Heartbeat, Join, Joined, Leaver, Refused, Sync
from broker.groups.members import ASSIGNED_BYTES
from broker.groups.offsets import Committed
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordination.coordinator_offsets import CHANGED_A_TURN
from tests.support.coordinating import FLIGHTS, housed, story

FULL = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""Every client asks again after it, later: Java's, librdkafka's, others'."""
KIB = 1 << 10
SESSION_MS = 10_000


def a_join(member_id="", **fields):
    named = {"protocol_type": "consumer", "protocols": (("range", b"meta"),)}
    given = {"client_id": "c"} | named | fields
    return Join(member_id, SESSION_MS, 60_000, **given)


async def filled(house):
    """Groups of one member until one is refused; the members by group."""
    members = {}
    for number in range(1_000):
        group_id = f"group-{number}"
        reply = await house.groups.join(group_id, a_join())
        if isinstance(reply, Refused):
            assert reply.code is FULL
            assert house.groups.describe(group_id) is None
            return members
        assert isinstance(reply, Joined)
        members[group_id] = reply.member_id
        sync = Sync(reply.member_id, 1, ((reply.member_id, b"all"),))
        await house.groups.sync(group_id, sync)
    raise AssertionError("it is never full")


def test_a_full_broker_takes_no_more_groups_and_serves_those_it_has(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=64 * KIB) as house:
            members = await filled(house)
            assert len(members) == 7  # 8 KiB each, and their ids
            assert house.groups.memory.held_bytes <= 64 * KIB
            for group_id, member_id in members.items():
                beat = Heartbeat(member_id, 1)
                assert house.groups.heartbeat(group_id, beat) is ErrorCode.NONE
                again = await house.groups.join(group_id, a_join(member_id))
                assert again.generation == 2
            more = a_join(members["group-0"], protocols=(("range", bytes(16 * KIB)),))
            assert (await house.groups.join("group-0", more)).code is FULL
            for group_id, member_id in members.items():
                await house.groups.leave(group_id, [Leaver(member_id)])
            house.timers.advance(
                house.groups.limits.offsets_retention_check_interval_ms
            )
            await asyncio.sleep(0)
            assert house.groups.memory.held_bytes == 0
            assert len(await filled(house)) == len(members)

    story(play)


def test_ids_that_were_given_and_not_used_are_counted(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=64 * KIB) as house:
            join = a_join(requires_member_id=True, client_id="c" * 100)
            codes = [(await house.groups.join("g", join)).code for _ in range(100)]
            assert codes[0] is ErrorCode.MEMBER_ID_REQUIRED
            assert codes[-1] is FULL
            assert house.groups.memory.held_bytes <= 64 * KIB
            await house.pass_time(SESSION_MS)
            assert house.groups.memory.held_bytes == 0

    story(play)


def test_an_assignment_that_is_too_much_is_refused(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=64 * KIB) as house:
            joined = await house.groups.join("g", a_join())
            sync = Sync(joined.member_id, 1, ((joined.member_id, bytes(64 * KIB)),))
            assert (await house.groups.sync("g", sync)).code is FULL
            small = Sync(joined.member_id, 1, ((joined.member_id, b"all"),))
            assert (await house.groups.sync("g", small)).assignment == b"all"

    story(play)


def test_offsets_in_transactions_take_room_as_others_do(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=64 * KIB) as house:
            key, groups = FLIGHTS.key(0), house.groups
            room = 0
            for producer in range(999):
                done = groups.commit_pending("g", producer, {key: Committed(1)})
                if await asyncio.wait([done]) and done.exception():
                    assert done.exception().code == FULL
                    break
                room += 1
            assert 50 < room < 256
            assert groups.memory.held_bytes <= 64 * KIB
            await groups.commit_pending("g", 0, {key: Committed(2)})
            refused = groups.commit("h", {key: Committed(1)})
            with pytest.raises(KafkaError):
                await refused
            await groups.offsets.end_pending("g", 0, commits=True)
            assert groups.fetch("g")[key].offset == 2
            for producer in range(1, room):
                await groups.offsets.end_pending("g", producer, commits=False)
            await groups.commit("h", {key: Committed(1)})

    story(play)


def test_offsets_that_are_here_are_committed_again_and_no_others(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=64 * KIB) as house:
            key, groups = FLIGHTS.key(0), house.groups
            for number in range(50):
                await groups.commit(f"g-{number}", {key: Committed(1)})
            refusing = [groups.commit(f"h-{n}", {key: Committed(1)}) for n in range(99)]
            codes = await asyncio.gather(*refusing, return_exceptions=True)
            assert isinstance(codes[-1], KafkaError)
            assert codes[-1].code == FULL
            assert groups.memory.held_bytes <= 64 * KIB
            await groups.commit("g-0", {key: Committed(2)})
            assert groups.fetch("g-0") == {key: Committed(2)}
            with pytest.raises(KafkaError):
                await groups.commit("g-0", {key: Committed(3, metadata="m" * KIB)})
            held = groups.memory.held_bytes
            await groups.delete("g-1")
            assert groups.memory.held_bytes < held
            await groups.commit("new", {key: Committed(1)})
        async with housed(tmp_path, memory_bytes_max=1) as house:
            assert house.groups.memory.held_bytes > KIB  # what was taken is kept
            await house.groups.commit("g-0", {key: Committed(4)})

    story(play)


def test_a_static_member_that_comes_back_adds_nothing(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=64 * KIB) as house:
            static = a_join(instance_id="s")
            first = await house.groups.join("g", static)
            sync = Sync(first.member_id, 1, ((first.member_id, b"all"),), "s")
            await house.groups.sync("g", sync)
            asking = a_join(requires_member_id=True)
            while (await house.groups.join("other", asking)).code is not FULL:
                pass
            assert (await house.groups.join("g", a_join())).code is FULL
            again = await house.groups.join("g", static)
            assert isinstance(again, Joined)
            more = a_join(instance_id="s", protocols=(("range", bytes(8 * KIB)),))
            assert (await house.groups.join("g", more)).code is FULL
            assert house.groups.memory.held_bytes <= 64 * KIB

    story(play)


async def fill_up(groups):
    """Commit for one group after the other until that is refused."""
    for number in range(1_000):
        await groups.commit(f"h-{number}", {FLIGHTS.key(0): Committed(1)})


def test_who_is_left_of_a_group_takes_over_what_the_others_had(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=64 * KIB) as house:
            groups = house.groups
            first = await groups.join("g", a_join())
            joining = groups.join("g", a_join())
            await groups.join("g", a_join(first.member_id))
            both = (first.member_id, (await joining).member_id)
            sync = Sync(both[0], 2, tuple((one, bytes(400)) for one in both))
            assert (await groups.sync("g", sync)).assignment == bytes(400)
            await groups.leave("g", [Leaver(both[1])])
            with pytest.raises(KafkaError):
                await fill_up(groups)
            assert (await groups.join("g", a_join(both[0]))).generation == 3
            sync = Sync(both[0], 3, ((both[0], bytes(1_000)),))
            assert (await groups.sync("g", sync)).assignment == bytes(1_000)
            assert groups.memory.held_bytes <= 64 * KIB

    story(play)


def test_what_one_member_is_given_is_no_room_for_what_another_is(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=64 * KIB) as house:
            groups = house.groups
            first = await groups.join("g", a_join())
            joining = [groups.join("g", a_join()) for _ in range(7)]
            await groups.join("g", a_join(first.member_id))
            await asyncio.gather(*joining)
            room = 64 * KIB - groups.memory.held_bytes
            much = bytes(room + 2 * ASSIGNED_BYTES)
            sync = Sync(first.member_id, 2, ((first.member_id, much),))
            assert (await groups.sync("g", sync)).code is FULL
            most = bytes(room + ASSIGNED_BYTES)
            sync = Sync(first.member_id, 2, ((first.member_id, most),))
            assert (await groups.sync("g", sync)).assignment == most
            assert groups.memory.held_bytes == 64 * KIB

    story(play)


def what_it_owns(partitions):
    """A cooperative consumer's metadata: it names the partitions that it owns."""
    flights = struct.pack(">h7s", 7, b"flights")
    owned = struct.pack(f">ii{partitions}i", 1, partitions, *range(partitions))
    subscription = struct.pack(">hi", 1, 1) + flights + struct.pack(">i", -1)
    return subscription + owned[:4] + flights + owned[4:]


def test_a_cooperative_member_names_what_it_owns_and_goes_on(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=64 * KIB) as house:
            groups, owned = house.groups, what_it_owns(200)
            fresh = a_join(protocols=(("cooperative-sticky", what_it_owns(0)),))
            first = await groups.join("g", fresh)
            given = Sync(first.member_id, 1, ((first.member_id, owned),))
            await groups.sync("g", given)
            with pytest.raises(KafkaError):
                await fill_up(groups)
            assert KIB > len(owned) > 800
            again = replace(
                fresh,
                member_id=first.member_id,
                protocols=(("cooperative-sticky", owned),),
            )
            held = groups.memory.held_bytes
            assert (await groups.join("g", again)).generation == 2
            assert groups.memory.held_bytes == held <= 64 * KIB

    story(play)


def test_who_is_not_known_any_more_is_told_so_when_there_is_no_room(tmp_path):
    async def play():
        async with housed(tmp_path, memory_bytes_max=64 * KIB) as house:
            groups, gone = house.groups, ErrorCode.UNKNOWN_MEMBER_ID
            evicted = (await groups.join("g", a_join())).member_id
            await groups.leave("g", [Leaver(evicted)])
            await groups.commit("offsets-only", {FLIGHTS.key(0): Committed(1)})
            given = await groups.join("g", a_join(requires_member_id=True))
            with pytest.raises(KafkaError):
                await fill_up(groups)
            for group_id in ("g", "offsets-only", "nobody's"):
                reply = await groups.join(group_id, a_join(evicted))
                assert reply.code is gone, group_id
            held = groups.memory.held_bytes
            for _ in range(100):
                assert (await groups.join("g", a_join("who"))).code is gone
            assert (await groups.join("g", a_join(given.member_id))).code is FULL
            assert groups.memory.held_bytes == held <= 64 * KIB

    story(play)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_commits_that_waited_for_a_change_in_parts_take_no_more_than_there_is(
    tmp_path, in_transaction
):
    def commit(groups, number):
        some = {(number, n): Committed(1) for n in range(1_000)}
        if in_transaction:
            return groups.commit_pending("g", number, some)
        return groups.commit("g", some)

    async def play():
        async with housed(tmp_path, memory_bytes_max=4_096 * KIB) as house:
            groups = house.groups
            many = {(1, n): Committed(1) for n in range(CHANGED_A_TURN + 1)}
            doing = [groups.commit("g", many)]
            doing += [commit(groups, number) for number in range(2, 22)]
            said = await asyncio.gather(*doing, return_exceptions=True)
            refused = [one for one in said if one is not None]
            assert {type(one) for one in refused} == {KafkaError}
            assert said[:2] == [None, None]
            assert groups.memory.held_bytes <= 4_096 * KIB

    story(play)


@contextmanager
def hanging(catalog):
    """The catalog takes changes, and finishes none until this is over."""
    goes_on = threading.Event()
    catalog.submit(lambda _: goes_on.wait())
    try:
        yield
    finally:
        goes_on.set()


A_THOUSAND = {(1, n): Committed(1) for n in range(1_000)}
TOO_MANY = {(1, n): Committed(1) for n in range(CHANGED_A_TURN + 1)}
WAITING = {
    "commit": lambda groups, _: groups.commit("g", A_THOUSAND),
    "in a transaction": lambda groups, n: groups.commit_pending("g", n, A_THOUSAND),
    "delete": lambda groups, _: groups.offsets.delete("g", list(A_THOUSAND)),
    "commit of many": lambda groups, _: groups.commit("g", TOO_MANY),
    "delete of many": lambda groups, _: groups.offsets.delete("g", list(TOO_MANY)),
    "of other groups": lambda groups, n: groups.commit(f"g-{n}", TOO_MANY),
}


@pytest.mark.parametrize("kind", WAITING)
def test_what_waits_for_a_change_in_parts_is_refused_where_there_is_no_room(
    tmp_path, kind
):
    async def play():
        async with housed(tmp_path, memory_bytes_max=4_096 * KIB) as house:
            groups = house.groups
            with hanging(house.catalog):
                first = groups.commit("g", TOO_MANY)
                waiting = [WAITING[kind](groups, number) for number in range(1, 41)]
                await asyncio.sleep(0)
                assert 1_024 * KIB < groups.memory.held_bytes <= 4_096 * KIB
                refused = [one for one in waiting if one.done()]
                assert len(refused) > 25
                assert not waiting[0].done()
                assert {one.exception().code for one in refused} == {FULL}
            await asyncio.gather(first, *waiting, return_exceptions=True)
            await groups.offsets.flush()
            held = groups.memory.held_bytes
            assert held == groups.offsets._commits.held_bytes  # what waited is not

    story(play)


def test_the_end_of_a_transaction_waits_where_there_is_no_room(tmp_path):
    """Its offsets are counted already, and somebody has to end it."""

    async def play():
        async with housed(tmp_path, memory_bytes_max=1_500 * KIB) as house:
            groups = house.groups
            await groups.commit_pending("g", 7, {(2, 0): Committed(9)})
            with hanging(house.catalog):
                first = groups.commit("g", TOO_MANY)
                refused = groups.commit("g", A_THOUSAND)
                ended = groups.offsets.end_pending("g", 7, commits=True)
                assert refused.exception().code is FULL
                assert not ended.done()
            await asyncio.gather(first, ended)
            assert groups.fetch("g")[2, 0].offset == 9

    story(play)


def test_many_offsets_that_are_here_are_committed_again_where_there_is_no_room(
    tmp_path,
):
    async def play():
        async with housed(tmp_path) as house:
            await house.groups.commit("g", TOO_MANY)
        async with housed(tmp_path, memory_bytes_max=1) as house:
            groups = house.groups
            again = {key: Committed(2) for key in TOO_MANY}
            first, refused = groups.commit("g", again), groups.commit("g", TOO_MANY)
            assert refused.exception().code is FULL
            await first
            assert groups.fetch("g") == again
            await groups.commit("g", TOO_MANY)
            assert groups.fetch("g") == TOO_MANY

    story(play)
