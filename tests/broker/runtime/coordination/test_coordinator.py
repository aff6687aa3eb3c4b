"""Groups over futures, timers and a real catalog."""

import asyncio

import pytest

from broker.catalog import groups as stored_groups
from broker.groups.commands import Heartbeat, Join, Leaver, Left, Refused, Sync
from broker.groups.offsets import Committed
from broker.groups.states import GroupState
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordination.coordinator import SWEPT_A_GROUP, SWEPT_A_TURN
from broker.runtime.coordination.coordinator_offsets import CHANGED_A_TURN
from tests.support.clock import ManualClock
from tests.support.coordinating import FLIGHTS, WEATHER, House, housed, story

RANGE = (("range", b"meta"),)
DAY = 86_400_000


def a_join(member_id: str = "", **fields) -> Join:
    known = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000}
    named = {"protocol_type": "consumer", "protocols": RANGE, "client_id": "c"}
    return Join(member_id=member_id, **(known | named | fields))


async def a_member(house: House, group_id: str = "g") -> str:
    """A group with one stable member; gives its id."""
    joined = await house.groups.join(group_id, a_join())
    member_id = joined.member_id
    await house.groups.sync(group_id, Sync(member_id, 1, ((member_id, b"all"),)))
    return member_id


def test_member_ids_are_the_clients_or_instances_name_and_an_id(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            assert (await house.groups.join("g", a_join())).member_id == "c-1"
            static = a_join(instance_id="i")
            assert (await house.groups.join("h", static)).member_id == "i-2"

    story(play)


def test_a_join_is_parked_until_the_others_come(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            first = await a_member(house)
            second = house.groups.join("g", a_join())
            assert not second.done()
            first_again = house.groups.join("g", a_join(first))
            assert (await second).generation == (await first_again).generation == 2

    story(play)


def test_timers_of_groups_run_on_the_brokers_timers(tmp_path):
    async def play():
        async with housed(tmp_path, initial_rebalance_delay_ms=3_000) as house:
            parked = house.groups.join("g", a_join())
            house.timers.advance(2_999)
            assert not parked.done()
            house.timers.advance(1)
            joined = await parked
            # It never syncs and never heartbeats: its session ends it.
            house.timers.advance(10_000)
            beat = Heartbeat(joined.member_id, 1)
            assert house.groups.heartbeat("g", beat) is ErrorCode.UNKNOWN_MEMBER_ID

    story(play)


def test_a_client_that_went_away_while_parked_harms_nobody(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            first = await a_member(house)
            gone = house.groups.join("g", a_join())
            gone.cancel()
            assert (await house.groups.join("g", a_join(first))).generation == 2

    story(play)


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_sessions_outside_the_limits_are_refused(tmp_path, timeout_ms):
    async def play():
        async with housed(tmp_path) as house:
            asked = a_join(session_timeout_ms=timeout_ms)
            reply = await house.groups.join("g", asked)
            assert reply == Refused(ErrorCode.INVALID_SESSION_TIMEOUT)
            assert not house.groups.exists("g")

    story(play)


def test_a_group_needs_a_name(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            bad = ErrorCode.INVALID_GROUP_ID
            assert (await house.groups.join("", a_join())).code is bad
            assert (await house.groups.sync("", Sync("m", 1))).code is bad
            assert house.groups.heartbeat("", Heartbeat("m", 1)) is bad
            assert (await house.groups.leave("", [Leaver("m")])).code is bad

    story(play)


def test_members_of_a_group_nobody_knows_are_told_so(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            assert (await house.groups.join("g", a_join("m"))).code is unknown
            assert (await house.groups.sync("g", Sync("m", 1))).code is unknown
            assert house.groups.heartbeat("g", Heartbeat("m", 1)) is unknown
            left = await house.groups.leave("g", [Leaver("m")])
            assert left == Left((unknown,))
            not_found = ErrorCode.GROUP_ID_NOT_FOUND
            assert house.groups.admit_commit("g", "m", None, 1) is not_found
            assert house.groups.admit_commit("g", "", None, -1) is ErrorCode.NONE
            await house.groups.commit("g", {(1, 0): Committed(1)})
            assert house.groups.admit_commit("g", "m", None, 1) is unknown
            inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            refused = await house.groups.join("g", a_join("m", protocols=()))
            assert refused.code is inconsistent
            assert (await house.groups.join("g", a_join("m"))).code is unknown

    story(play)


def test_a_refused_join_leaves_no_group_behind(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            reply = await house.groups.join("g", a_join(protocols=()))
            assert reply.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert not house.groups.exists("g")

    story(play)


def test_a_knock_that_nobody_follows_up_leaves_no_group_behind(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            reply = await house.groups.join("g", a_join(requires_member_id=True))
            assert reply.code is ErrorCode.MEMBER_ID_REQUIRED
            house.timers.advance(9_999)
            assert house.groups.exists("g")
            house.timers.advance(1)
            assert not house.groups.exists("g")

    story(play)


# -- restarts -----------------------------------------------------------------


def test_after_a_restart_members_and_offsets_are_where_they_were(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member_id = await a_member(house)
            await house.groups.commit("g", {(1, 0): Committed(42, 3, "m", 5)})
            before = house.groups.describe("g")
        async with housed(tmp_path) as house:
            assert house.groups.describe("g") == before
            ok = ErrorCode.NONE
            assert house.groups.admit_commit("g", member_id, None, 1) is ok
            assert house.groups.heartbeat("g", Heartbeat(member_id, 1)) is ok
            synced = await house.groups.sync("g", Sync(member_id, 1))
            assert synced.assignment == b"all"
            assert house.groups.fetch("g") == {(1, 0): Committed(42, 3, "m", 5)}
            house.timers.advance(9_999)
            assert house.groups.heartbeat("g", Heartbeat(member_id, 1)) is ok

    story(play)


def test_a_member_that_does_not_come_back_expires_and_that_is_durable(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await a_member(house)
        async with housed(tmp_path) as house:
            house.timers.advance(10_000)
            assert house.groups.describe("g").state is GroupState.EMPTY
        async with housed(tmp_path) as house:
            empty = house.groups.describe("g")
            assert (empty.state, empty.protocol_type) == (GroupState.EMPTY, "consumer")
            assert (await house.groups.join("g", a_join())).generation == 3

    story(play)


def test_a_restart_in_the_middle_of_a_rebalance_goes_back_before_it(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            first = await a_member(house)
            second = house.groups.join("g", a_join())
            await house.groups.join("g", a_join(first))
            second_id = (await second).member_id
        async with housed(tmp_path) as house:
            beat = Heartbeat(first, 2)
            assert house.groups.heartbeat("g", beat) is ErrorCode.ILLEGAL_GENERATION
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            assert (await house.groups.join("g", a_join(second_id))).code is unknown
            assert (await house.groups.join("g", a_join(first))).generation == 2

    story(play)


def test_a_static_member_is_known_by_the_id_that_it_was_told(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            static = a_join(instance_id="i")
            old = (await house.groups.join("g", static)).member_id
            await house.groups.sync("g", Sync(old, 1, ((old, b"all"),), "i"))
            taken_over = house.groups.join("g", static)
            assert not taken_over.done()
            new = (await taken_over).member_id
        async with housed(tmp_path) as house:
            fenced = ErrorCode.FENCED_INSTANCE_ID
            assert house.groups.heartbeat("g", Heartbeat(old, 1, "i")) is fenced
            ok = ErrorCode.NONE
            assert house.groups.heartbeat("g", Heartbeat(new, 1, "i")) is ok

    story(play)


def _refuse_groups(connection) -> None:
    connection.exec_driver_sql(
        "create trigger refuse before insert on group_metadata "
        "begin select raise(abort, 'no room'); end"
    )


def test_a_generation_that_cannot_be_stored_is_refused_and_tried_again(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            joined = await house.groups.join("g", a_join())
            member_id = joined.member_id
            await asyncio.wrap_future(house.catalog.submit(_refuse_groups))
            refused = await house.groups.sync("g", Sync(member_id, 1))
            assert refused == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            joined = await house.groups.join("g", a_join(member_id))
            assert joined.generation == 2
            repaired = house.catalog.submit(
                lambda c: c.exec_driver_sql("drop trigger refuse") and None
            )
            await asyncio.wrap_future(repaired)
            mine = ((member_id, b"all"),)
            synced = await house.groups.sync("g", Sync(member_id, 2, mine))
            assert synced.assignment == b"all"

    story(play)


def test_who_asks_a_broker_that_goes_is_to_ask_again(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member_id = await a_member(house)
            groups, gone = house.groups, ErrorCode.COORDINATOR_NOT_AVAILABLE
            await groups.close()
            assert groups.heartbeat("g", Heartbeat(member_id, 1)) is gone
            assert groups.admit_commit("g", member_id, None, 1) is gone
            assert (await groups.leave("g", [Leaver(member_id)])).code is gone
            assert groups.delete_refusal("g") is gone
            assert groups.offset_delete_refusal("g") is gone
            assert (await groups.join("g", a_join(member_id))).code is gone
            assert (await groups.sync("g", Sync(member_id, 1))).code is gone
        async with housed(tmp_path) as house:
            beat = Heartbeat(member_id, 1)
            assert house.groups.heartbeat("g", beat) is ErrorCode.NONE

    story(play)


def test_the_last_one_leaves_once_that_is_durable(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member_id = await a_member(house)
            commits = house.catalog.commits
            left = house.groups.leave("g", [Leaver(member_id)])
            assert not left.done()
            assert await left == Left((ErrorCode.NONE,))
            assert house.catalog.commits == commits + 1

    story(play)


def test_the_last_one_that_cannot_leave_durably_is_told(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member_id = await a_member(house)
            await asyncio.wrap_future(house.catalog.submit(_refuse_groups))
            left = await house.groups.leave("g", [Leaver(member_id)])
            assert left == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        async with housed(tmp_path) as house:
            assert house.groups.describe("g").state is GroupState.STABLE

    story(play)


def test_heartbeats_and_followers_do_not_touch_the_catalog(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member_id = await a_member(house)
            commits = house.catalog.commits
            for _ in range(100):
                beat = Heartbeat(member_id, 1)
                assert house.groups.heartbeat("g", beat) is ErrorCode.NONE
            await house.groups.sync("g", Sync(member_id, 1))
            await house.groups.offsets.flush()
            assert house.catalog.commits == commits

    story(play)


def test_a_group_that_cannot_be_deleted_is_there_again(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member_id = await a_member(house)
            await house.groups.leave("g", [Leaver(member_id)])
            house.catalog.close()
            deleted = house.groups.delete("g")
            assert not house.groups.exists("g")
            with pytest.raises(KafkaError):
                await deleted
            assert house.groups.describe("g").protocol_type == "consumer"
            assert house.groups.delete_refusal("g") is ErrorCode.NONE

    story(play)


def test_a_group_that_cannot_be_read_is_forgotten_and_the_others_are_not(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await a_member(house, "g")
            await a_member(house, "h")
            spoilt = house.catalog.submit(lambda c: stored_groups.store(c, "g", "{}"))
            await asyncio.wrap_future(spoilt)
        async with housed(tmp_path) as house:
            assert not house.groups.exists("g")
            assert house.groups.describe("h").state is GroupState.STABLE

    story(play)


def test_closing_sends_who_waits_to_ask_again(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await a_member(house)
            parked = house.groups.join("g", a_join())
            await house.groups.close()
            assert (await parked).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert not len(house.timers)

    story(play)


def test_what_is_stored_after_the_end_wakes_nobody(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            joined = await house.groups.join("g", a_join())
            parked = house.groups.sync("g", Sync(joined.member_id, 1))
            await house.groups.close()
            assert (await parked).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            await asyncio.sleep(0)
            assert not len(house.timers)
        async with housed(tmp_path) as house:
            assert house.groups.describe("g").state is GroupState.STABLE

    story(play)


def test_groups_of_all_kinds_are_listed(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await a_member(house)
            await house.groups.commit("g", {(1, 0): Committed(1)})
            await house.groups.commit("simple", {(1, 0): Committed(1)})
            assert sorted(house.groups.groups()) == [
                ("g", "consumer", GroupState.STABLE),
                ("simple", "", GroupState.EMPTY),
            ]
            assert house.groups.describe("simple").state is GroupState.EMPTY
            assert house.groups.describe("nobody") is None

    story(play)


def test_a_deleted_group_is_gone_with_its_offsets_and_stays_gone(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member_id = await a_member(house)
            await house.groups.commit("g", {(1, 0): Committed(1)})
            refusal = house.groups.delete_refusal("g")
            assert refusal is ErrorCode.NON_EMPTY_GROUP
            house.groups.leave("g", [Leaver(member_id)])
            assert house.groups.delete_refusal("g") is ErrorCode.NONE
            await house.groups.delete("g")
            refusal = house.groups.delete_refusal("g")
            assert refusal is ErrorCode.GROUP_ID_NOT_FOUND
        async with housed(tmp_path) as house:
            assert not house.groups.exists("g")

    story(play)


# -- retention (KIP-211) ------------------------------------------------------


def test_offsets_live_while_there_are_members_and_seven_days_longer(tmp_path):
    async def play():
        async with housed(tmp_path, offsets_retention_check_ms=60_000) as house:
            joined = await house.groups.join("g", a_join(session_timeout_ms=1_800_000))
            member_id = joined.member_id
            await house.groups.sync("g", Sync(member_id, 1))
            await house.groups.commit("g", {(1, 0): Committed(1)})
            for _ in range(8 * 50):
                house.timers.advance(DAY // 50)
                beat = Heartbeat(member_id, 1)
                assert house.groups.heartbeat("g", beat) is ErrorCode.NONE
            house.groups.leave("g", [Leaver(member_id)])
            house.timers.advance(7 * DAY - 60_000)
            assert house.groups.fetch("g")
            house.timers.advance(60_000)
            await house.groups.offsets.flush()
            house.timers.advance(60_000)
            assert not house.groups.exists("g")

    story(play)


def test_an_offset_that_is_being_committed_anew_does_not_expire(tmp_path):
    """It is acknowledged after the sweep has looked at the old one."""

    async def play():
        async with housed(tmp_path, offsets_retention_check_ms=60_000) as house:
            await house.groups.commit("g", {(1, 0): Committed(1), (1, 1): Committed(1)})
            house.timers.advance(7 * DAY - 60_001)
            now_ms = house.clock.now_ms()
            again = house.groups.commit(
                "g", {(1, 0): Committed(2, committed_ms=now_ms)}
            )
            house.timers.advance(120_000)  # before the loop hears that it is durable
            await again
            await house.groups.offsets.flush()
            assert {k: c.offset for k, c in house.groups.fetch("g").items()} == {
                (1, 0): 2
            }

    story(play)


def test_a_sweep_gives_way_and_forgets_no_less(tmp_path):
    async def play():
        async with housed(tmp_path, offsets_retention_check_ms=DAY) as house:
            many = {(1, n): Committed(1) for n in range(2 * SWEPT_A_TURN + 1)}
            few = [f"g{n}" for n in range(2 * SWEPT_A_TURN // SWEPT_A_GROUP)]
            await house.groups.commit("many", many)
            for group_id in few:
                house.groups.commit(group_id, {(1, 0): Committed(1)})
            await house.groups.offsets.flush()
            house.timers.advance(6 * DAY - 1)
            await house.groups.offsets.flush()
            assert len(house.groups.fetch("many")) == len(many)
            house.timers.advance(DAY + 1)
            left = [len(house.groups.fetch("many"))]
            while any(house.groups.exists(one) for one in ("many", *few)):
                house.timers.advance(1)
                await house.groups.offsets.flush()
                left.append(len(house.groups.fetch("many")))
            assert len({*left}) > 2  # in some turns, and not in one

    story(play)


def test_offsets_too_many_for_a_turn_are_changed_in_parts(tmp_path):
    many = {(1, n): Committed(n) for n in range(2 * CHANGED_A_TURN + 1)}
    gone = list(many)[:-1]

    async def play():
        async with housed(tmp_path) as house:
            seen = []
            done = house.groups.commit("g", many)
            while not done.done():
                await asyncio.sleep(0)
                seen.append(len(house.groups.fetch("g")))
            assert len({*seen}) > 2
        async with housed(tmp_path) as house:
            assert house.groups.fetch("g") == many
            await house.groups.offsets.delete("g", gone)
            assert len(house.groups.fetch("g")) == 1
            refused = house.groups.commit("g", many)
            house.catalog.close()
            with pytest.raises(KafkaError):
                await refused

    story(play)


def test_what_is_asked_during_a_change_in_parts_comes_after_it(tmp_path):
    many = {(1, n): Committed(100) for n in range(2 * CHANGED_A_TURN + 1)}
    last = (1, 2 * CHANGED_A_TURN)

    async def play():
        async with housed(tmp_path) as house:
            groups = house.groups
            await groups.commit("g", {last: Committed(1)})
            done = groups.commit("g", many)
            later = groups.commit("g", {last: Committed(500)})
            later.cancel()  # its client went: it is made, and in its place
            groups.offsets.expire("g", [last])
            await done
            await groups.commit("g", {(2, 0): Committed(7)})
            assert groups.fetch("g")[last].offset == 500
            doing = [groups.offsets.delete("g", list(many)), groups.delete("g")]
            doing += [groups.commit("g", many), groups.delete("g")]
            await asyncio.gather(*doing)
            assert not groups.fetch("g")
        async with housed(tmp_path) as house:
            assert not house.groups.fetch("g")

    story(play)


def test_a_transaction_that_ends_during_a_change_in_parts_ends_after_it(tmp_path):
    many = {(1, n): Committed(100) for n in range(2 * CHANGED_A_TURN + 1)}
    last = (1, 2 * CHANGED_A_TURN)

    async def play():
        async with housed(tmp_path) as house:
            done = house.groups.commit("g", many)
            pending = house.groups.commit_pending("g", 7, {last: Committed(500)})
            ended = house.groups.offsets.end_pending("g", 7, commits=True)
            await asyncio.gather(done, pending, ended)
            assert house.groups.fetch("g")[last].offset == 500
            assert not house.groups.offsets.unstable("g")

    story(play)


def test_a_group_made_anew_while_the_old_ones_deletion_waits_is_there_after_a_restart(
    tmp_path,
):
    many = {(1, n): Committed(100) for n in range(2 * CHANGED_A_TURN)}

    async def play():
        async with housed(tmp_path) as house:
            await house.groups.commit("g", {(1, 1): Committed(1)})
            done = house.groups.commit("g", many)
            gone = house.groups.delete("g")
            member_id = await a_member(house)
            await asyncio.gather(done, gone)
            assert not house.groups.fetch("g")
        async with housed(tmp_path) as house:
            assert house.groups.has_member("g", member_id)
            assert not house.groups.fetch("g")

    story(play)


def test_a_group_whose_deletion_failed_is_the_same_after_a_restart(
    tmp_path, monkeypatch
):
    """Also where it was asked for while a change of its offsets was made in parts."""
    many = {(1, n): Committed(100) for n in range(2 * CHANGED_A_TURN)}

    def refuse(*_):
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")

    async def play():
        async with housed(tmp_path) as house:
            member_id = await a_member(house)
            await house.groups.leave("g", [Leaver(member_id)])
            await house.groups.commit("g", {(1, 0): Committed(1)})
            done = house.groups.commit("g", many)
            with monkeypatch.context() as failing:
                for name in ("delete", "delete_group"):
                    failing.setattr(f"broker.catalog.offsets.{name}", refuse)
                gone = house.groups.delete("g")
                said = await asyncio.gather(done, gone, return_exceptions=True)
                assert isinstance(said[-1], KafkaError)
            assert house.groups.exists("g")
        async with housed(tmp_path) as house:
            joined = await house.groups.join("g", a_join())
            assert joined.generation == 3

    story(play)


def test_a_stop_waits_for_all_parts_of_a_change_and_what_waits_for_them(tmp_path):
    many = {(1, n): Committed(100) for n in range(2 * CHANGED_A_TURN + 1)}

    async def play():
        async with housed(tmp_path) as house:
            done = house.groups.commit("g", many)
            later = house.groups.commit("g", {(2, 0): Committed(7)})
        assert (await done, await later) == (None, None)
        async with housed(tmp_path) as house:
            assert len(house.groups.fetch("g")) == len(many) + 1

    story(play)


def test_a_restart_makes_offsets_live_longer_never_shorter(tmp_path):
    async def play():
        clock = ManualClock()
        async with housed(tmp_path, clock) as house:
            offsets = {(1, 0): Committed(1, committed_ms=clock.now_ms())}
            await house.groups.commit("g", offsets)
        clock.advance(8 * DAY)
        async with housed(tmp_path, clock) as house:
            house.timers.advance(7 * DAY - 1)
            await house.groups.offsets.flush()
            assert house.groups.fetch("g")
            house.timers.advance(DAY)
            await house.groups.offsets.flush()
            assert not house.groups.exists("g")
        async with housed(tmp_path, clock) as house:
            assert not house.groups.fetch("g")

    story(play)


def test_offsets_of_a_topic_that_is_gone_go_too(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            number = WEATHER.number
            offsets = {(number, 0): Committed(1), (FLIGHTS.number, 0): Committed(2)}
            now_ms = house.clock.now_ms()
            kept = {
                key: one._replace(committed_ms=now_ms) for key, one in offsets.items()
            }
            await house.groups.commit("g", kept)
            await house.topics.delete(WEATHER)
            house.timers.advance(600_000)
            await house.groups.offsets.flush()
            assert list(house.groups.fetch("g")) == [(FLIGHTS.number, 0)]

    story(play)


def test_an_abandoned_group_without_offsets_is_dropped(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member_id = await a_member(house)
            house.groups.leave("g", [Leaver(member_id)])
            assert house.groups.exists("g")
            house.timers.advance(600_000)
            assert not house.groups.exists("g")
        async with housed(tmp_path) as house:
            assert not house.groups.exists("g")

    story(play)


def test_the_age_of_an_empty_group_is_not_forgotten(tmp_path):
    async def play():
        clock = ManualClock()
        async with housed(tmp_path, clock) as house:
            member_id = await a_member(house)
            await house.groups.commit("g", {(1, 0): Committed(1)})
            house.groups.leave("g", [Leaver(member_id)])
        clock.advance(7 * DAY)
        async with housed(tmp_path, clock) as house:
            assert house.groups.fetch("g")
            house.timers.advance(600_000)
            await house.groups.offsets.flush()
            assert not house.groups.fetch("g")

    story(play)


def test_hundreds_of_members_rebalance_together(tmp_path):
    async def play():
        async with housed(tmp_path, initial_rebalance_delay_ms=3_000) as house:
            joins = [house.groups.join("g", a_join()) for _ in range(300)]
            while not joins[0].done():
                house.timers.advance(1_000)
            replies = await asyncio.gather(*joins)
            assert {reply.generation for reply in replies} == {1}
            (leader,) = {reply.leader_id for reply in replies}
            ids = [reply.member_id for reply in replies]
            parts = tuple((one, one.encode()) for one in ids)
            syncs = [
                house.groups.sync("g", Sync(one, 1, parts if one == leader else ()))
                for one in reversed(ids)
            ]
            given = [
                reply.assignment.decode() for reply in await asyncio.gather(*syncs)
            ]
            assert given == ids[::-1]

    story(play)


def test_single_offsets_of_a_group_whose_members_are_no_consumers_stay(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            groups = house.groups
            assert groups.offset_delete_refusal("") is ErrorCode.INVALID_GROUP_ID
            not_found = ErrorCode.GROUP_ID_NOT_FOUND
            assert groups.offset_delete_refusal("simple") is not_found
            await groups.commit("simple", {(1, 0): Committed(1)})
            assert groups.offset_delete_refusal("simple") is ErrorCode.NONE
            await a_member(house)
            assert groups.offset_delete_refusal("g") is ErrorCode.NONE
            await groups.join("h", a_join(protocol_type="connect"))
            refusal = groups.offset_delete_refusal("h")
            assert refusal is ErrorCode.NON_EMPTY_GROUP
            assert groups.reads("h", "flights")  # nobody knows that it does not
            assert not groups.reads("simple", "flights")
            assert not groups.reads("nobody", "flights")

    story(play)


@pytest.mark.parametrize("timeout_ms", [6_000, 1_800_000])
def test_sessions_at_the_limits_are_taken(tmp_path, timeout_ms):
    async def play():
        async with housed(tmp_path) as house:
            asked = a_join(session_timeout_ms=timeout_ms)
            assert (await house.groups.join("g", asked)).generation == 1

    story(play)
