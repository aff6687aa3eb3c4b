"""The phases: how long they wait, who is out, and what holds whatever happens."""

import struct

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.groups.classic import ClassicGroup
from broker.groups.commands import (
    Command,
    Expire,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Leaver,
    Resume,
    Sync,
    TimerKey,
    Written,
)
from broker.groups.draft import JOIN_TIMER
from broker.groups.events import WriteBegan
from broker.groups.group import Group
from broker.groups.limits import GroupLimits
from broker.groups.members import PENDING_BYTES
from broker.groups.snapshot import decode, encode
from broker.groups.states import GroupState
from broker.protocol.errors import ErrorCode
from tests.support.playbook import (
    RANGE,
    Playbook,
    again,
    alive,
    assert_equal,
    completing,
    heartbeat,
    join,
    joined,
    leave,
    left,
    nothing,
    refused,
    stable,
    sync,
    synced,
    tick,
)


@pytest.fixture
def group():
    book = Playbook()
    yield book
    book.finish()


def test_the_initial_delay_is_extended_while_members_arrive(group):
    (
        group
        >> join("a")
        >> tick(2_000)
        >> join("b")
        >> tick(1_000)
        << nothing
        >> tick(2_999)
        << nothing
        >> tick(1)
        << joined("a", generation=1)
        << joined("b", generation=1)
    )


def test_the_initial_delay_is_never_longer_than_the_rebalance_timeout(group):
    def step(book: Playbook) -> None:
        book.tick(1_000)

    group >> join("m0", rebalance_timeout_ms=7_000)
    for n in range(1, 7):
        group >> step << nothing >> join(f"m{n}", rebalance_timeout_ms=7_000)
    group >> step
    assert {reply.generation for _, reply in group.answers} == {1}
    assert len(group.answers) == 7
    group.answers.clear()


def test_without_an_initial_delay_the_first_member_is_answered_at_once():
    book = Playbook(initial_rebalance_delay_ms=0)
    book >> join("a") << joined("a", generation=1)
    book.finish()


def test_a_later_rebalance_waits_no_longer_than_its_members_need(group):
    stable(group, "a")
    group >> join("b") >> tick(1) << nothing
    group >> again("a") << joined("a", generation=2) << joined("b", generation=2)


def test_a_join_phase_that_all_have_joined_leaves_no_timer_behind(group):
    stable(group, "a", "b")
    group >> join("c") >> again("a") << nothing
    assert JOIN_TIMER in group.timers
    group >> again("b")
    group.answers.clear()
    assert group.group.state is GroupState.COMPLETING_REBALANCE
    assert JOIN_TIMER not in group.timers


def test_who_polls_too_late_costs_one_rebalance_going_and_one_coming_back(group):
    stable(group, "a", "b")
    group >> leave("b") << left("NONE")
    group >> heartbeat("a", 1) << refused("a", "REBALANCE_IN_PROGRESS")
    group >> again("a") << joined("a", generation=2)
    group >> sync("a", 2, {"a": b"all"}) << synced("a", b"all")
    beats_for_minutes(group, 2, "a")
    group >> join("b2") << nothing
    group >> heartbeat("a", 2) << refused("a", "REBALANCE_IN_PROGRESS")
    group >> again("a") << joined("a", generation=3) << joined("b2", generation=3)
    group >> sync("b2", 3) << nothing >> sync("a", 3, {"a": b"1", "b2": b"2"})
    group << synced("a", b"1") << synced("b2", b"2")
    beats_for_minutes(group, 3, "a", "b2")


def beats_for_minutes(book: Playbook, generation: int, *members: str) -> None:
    """Longer than each timeout there is, nothing calls the members together again."""
    for _ in range(100):
        book >> tick(3_000) << nothing
        for member in members:
            book >> heartbeat(member, generation) << alive(member)


def test_who_has_not_rejoined_in_the_longest_timeout_is_out(group):
    stable(group, "a", "b", "c", session_timeout_ms=600_000)
    (
        group
        >> again("b", rebalance_timeout_ms=20_000, session_timeout_ms=600_000)
        << joined("b", generation=1)
        >> join("d", rebalance_timeout_ms=5_000)
        << nothing
    )
    # "a" and "c" have said 60 s, the most patient: so long the others wait.
    group >> again("b", session_timeout_ms=600_000) >> tick(59_999) << nothing
    group >> tick(1)
    assert {t: r.leader_id for t, r in group.answers} == {"b": "b", "d": "b"}
    group.answers.clear()


def test_a_new_member_that_vanished_is_not_waited_for_for_ever():
    book = Playbook(new_member_join_timeout_ms=20_000)
    stable(book, "a", session_timeout_ms=600_000, rebalance_timeout_ms=600_000)
    book >> join("b") >> tick(19_999) << nothing >> tick(1)
    book << refused("b", "UNKNOWN_MEMBER_ID")
    book.finish()


def test_a_sync_that_is_sent_back_starts_its_members_session_anew(group):
    completing(group, "a", "b")
    group >> sync("b", 1) << nothing >> tick(6_000) >> heartbeat("a", 1) << alive("a")
    group >> join("c") << refused("b", "REBALANCE_IN_PROGRESS") >> tick(9_000)
    group << nothing >> again("b") << nothing >> again("a")
    assert {ticket for ticket, _ in group.answers} == {"a", "b", "c"}
    group.answers.clear()


def test_an_empty_group_is_a_generation_of_its_own(group):
    stable(group, "a")
    group >> leave("a") << left("NONE")
    assert (group.group.state, group.group.generation) == (GroupState.EMPTY, 2)


def test_a_member_that_dies_during_a_rebalance_completes_it(group):
    stable(group, "a", "b")
    group >> tick(5_000) >> heartbeat("a", 1)
    group.answers.clear()
    group >> again("a") << nothing >> tick(5_000) << joined("a", generation=2)


def test_only_silent_static_members_keep_a_rebalance_open_until_they_expire(group):
    stable(
        group, "s", instance_id="i", session_timeout_ms=90_000,
        rebalance_timeout_ms=10_000,
    )  # fmt: skip
    group >> join("d", session_timeout_ms=90_000, rebalance_timeout_ms=10_000)
    group >> leave("d") << left("NONE") << refused("d", "UNKNOWN_MEMBER_ID")
    group >> tick(60_000) << nothing
    assert group.group.state is GroupState.PREPARING_REBALANCE
    group >> tick(30_000) << nothing
    assert group.group.state is GroupState.EMPTY


def test_a_silent_static_member_is_not_thrown_out_with_the_join_phase(group):
    stable(
        group, "s", instance_id="i", session_timeout_ms=90_000,
        rebalance_timeout_ms=10_000,
    )  # fmt: skip
    group >> join("d", rebalance_timeout_ms=10_000) >> tick(10_000)
    group << joined("d", generation=2, leader_id="d")
    assert "s" in group.group.roster


def test_nothing_read_is_known_until_everybody_is_understood(group):
    metadata = struct.pack(">hi", 0, 1) + struct.pack(">h", 1) + b"t"
    stable(group, "a", protocols=(("range", metadata),))
    assert group.group.subscribed() == {"t"}
    assert group.group.retention_state() == (None, {"t"})
    group >> join("b")
    assert group.group.subscribed() is None
    assert group.group.retention_state() == (None, None)


def test_the_leader_of_a_rebalance_is_one_who_joined(group):
    completing(group, "a", "b")
    group >> sync("a", 1) << synced("a", b"") >> sync("b", 1) << synced("b", b"")
    group >> again("b", protocols=(("range", b"new"),)) >> leave("a")
    group << left("NONE") << joined("b", generation=2, leader_id="b")


RESTED = (GroupState.STABLE, GroupState.EMPTY)


class AnyOrder(RuleBasedStateMachine):
    """Anything may happen in any order; nobody may be forgotten or answered twice."""

    NAMES = st.sampled_from(["a", "b", "c", "d"])

    def __init__(self) -> None:
        super().__init__()
        limits = GroupLimits(members_max=3, initial_rebalance_delay_ms=2)
        self.machine = ClassicGroup(limits, Group("g", 0))
        self.replayed = Group("g", 0)
        self.timers: dict[TimerKey, int] = {}
        self.now_ms = 0
        self.open: set[int] = set()
        self.asked = 0
        self.generation = 0
        self.storing: list[WriteBegan] = []

    @property
    def group(self) -> Group:
        return self.machine.group

    def ticket(self) -> int:
        self.asked += 1
        self.open.add(self.asked)
        return self.asked

    def say(self, command: Command) -> None:
        before = self.group.copy()
        decision = self.machine.decide(command, 0)
        assert_equal(self.group, before)
        for event in decision.events:
            self.machine.apply(event)
        for ticket, reply in decision.replies:
            if isinstance(command, Leave) and ticket is None:
                continue
            assert ticket in self.open, "answered twice, or nobody asked"
            self.open.remove(ticket)
            if isinstance(reply, Joined):
                assert reply.generation == self.group.generation
        for key, delay_ms in decision.timers.items():
            self.timers.pop(key, None)
            if delay_ms is not None:
                assert delay_ms >= 0
                self.timers[key] = self.now_ms + delay_ms
        for event in decision.events:
            self.replayed.apply(event)
            if event.durable:
                assert decode(encode(event.snapshot)) == event.snapshot
                self.storing.append(event)
        assert self.group.generation >= self.generation
        self.generation = self.group.generation

    @rule(
        name=NAMES,
        known=st.booleans(),
        static=st.booleans(),
        knock=st.booleans(),
        metadata=st.sampled_from([b"1", b"2"]),
    )
    def join(self, name, known, static, knock, metadata) -> None:
        command = Join(
            name if known else "",
            10,
            20,
            "consumer",
            (("range", metadata),),
            instance_id=f"i{name}" if static else None,
            new_member_id=f"{name}{self.asked}" if not known else "",
            ticket=self.ticket(),
            requires_member_id=knock,
        )
        self.say(command)

    @rule(data=st.data(), right=st.booleans())
    def sync(self, data, right) -> None:
        member_id = data.draw(self.somebody())
        generation = self.group.generation - (not right)
        parts = ((member_id, b"x"),)
        command = Sync(member_id, generation, parts, ticket=self.ticket())
        self.say(command)

    @rule(data=st.data())
    def rejoin(self, data) -> None:
        member_id = data.draw(self.somebody())
        member = self.group.roster.get(member_id)
        instance_id = member.instance_id if member else None
        command = Join(
            member_id, 10, 20, "consumer", RANGE, instance_id, ticket=self.ticket()
        )
        self.say(command)

    @rule(data=st.data())
    def heartbeat(self, data) -> None:
        member_id = data.draw(self.somebody())
        command = Heartbeat(member_id, self.group.generation, ticket=self.ticket())
        self.say(command)

    @rule(data=st.data())
    def leave(self, data) -> None:
        self.say(Leave((Leaver(data.draw(self.somebody())),)))

    @rule(data=st.data())
    def fire(self, data) -> None:
        if self.timers:
            key = data.draw(st.sampled_from(sorted(self.timers)))
            self.run_out(key)

    def run_out(self, key: TimerKey) -> None:
        self.now_ms = max(self.now_ms, self.timers.pop(key))
        self.say(Expire(key))

    @rule(well=st.booleans())
    def stored(self, well) -> None:
        if self.storing:
            code = ErrorCode.NONE if well else ErrorCode.COORDINATOR_NOT_AVAILABLE
            self.say(Written(self.storing.pop(0).serial, code))

    @rule()
    def restart(self) -> None:
        """The broker goes, and who waits is not answered; what was stored is there."""
        if self.storing or self.group.state not in RESTED:
            return
        before = self.group
        self.timers.clear()
        again = Group.restored("g", before.snapshot())
        self.machine = ClassicGroup(self.machine.limits, again)
        self.replayed = again.copy()
        self.say(Resume())
        assert self.group.describe() == before.describe()
        assert self.group.retention_state() == before.retention_state()
        assert self.group.snapshot() == before.snapshot()

    def somebody(self):
        ids = [m.member_id for m in self.group.roster]
        return st.sampled_from([*ids, *sorted(self.group.roster.pending), "nobody"])

    @invariant()
    def a_replay_of_the_events_is_the_group(self) -> None:
        assert_equal(self.group, self.replayed)

    @invariant()
    def every_parked_ticket_belongs_to_a_member(self) -> None:
        parked = [
            ticket
            for member in self.group.roster
            for ticket in (member.join_ticket, member.sync_ticket)
            if ticket is not None
        ]
        assert sorted(parked) == sorted(self.open)

    @invariant()
    def the_counts_agree_with_the_members(self) -> None:
        group, members = self.group, list(self.group.roster)
        joining = sum(m.join_ticket is not None for m in members)
        assert group.roster.joining == joining
        if group.state is GroupState.EMPTY:
            assert not members
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert members
        assert bool(group.leader_id in group.roster) == bool(members)
        assert group.unsynced <= {m.member_id for m in members}

    @invariant()
    def what_it_takes_is_the_sum_of_who_is_in_it(self) -> None:
        roster = self.group.roster
        members = sum(member.held_bytes for member in roster)
        pending = sum(PENDING_BYTES + len(member_id) for member_id in roster.pending)
        assert roster.held_bytes == members + pending
        assert self.group.held_bytes > roster.held_bytes

    @invariant()
    def what_is_parked_fits_the_state(self) -> None:
        joins = any(m.join_ticket is not None for m in self.group.roster)
        syncs = any(m.sync_ticket is not None for m in self.group.roster)
        state = self.group.state
        taking_over = state is GroupState.STABLE and self.storing
        assert not joins or taking_over or state is GroupState.PREPARING_REBALANCE
        assert not syncs or state is GroupState.COMPLETING_REBALANCE

    @invariant()
    def somebody_watches_every_member_and_every_rebalance(self) -> None:
        watched = {key.member_id for key in self.timers if key.kind == "member"}
        kinds = {key.kind for key in self.timers}
        for member in self.group.roster:
            assert member.member_id in watched or member.parked()
        assert self.group.roster.pending <= watched
        if self.group.state is GroupState.PREPARING_REBALANCE:
            assert "join" in kinds
            assert "sync" not in kinds
        if self.group.unsynced:
            assert "sync" in kinds

    def teardown(self) -> None:
        """Left alone, time alone answers everybody and empties the group."""
        for _ in range(200):
            while self.storing:
                self.stored(True)
            if not self.timers:
                break
            self.run_out(min(self.timers, key=self.timers.__getitem__))
        assert not self.open
        assert self.group.state is GroupState.EMPTY


AnyOrder.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
TestGroup = AnyOrder.TestCase
