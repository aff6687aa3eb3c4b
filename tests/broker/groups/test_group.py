"""The state of a group: a value with copies, a snapshot and views."""

from dataclasses import replace

from broker.groups.group import Group
from broker.groups.members import Member
from broker.groups.snapshot import GroupSnapshot, MemberSnapshot
from broker.groups.states import GroupState

READS_T = b"\x00\x00\x00\x00\x00\x01\x00\x01t"
MEMBER = MemberSnapshot("a", "i", "c", "/h", 10, 20, (("range", READS_T),), b"all")
STABLE = GroupSnapshot("consumer", 3, "range", "a", None, (MEMBER,))


def test_a_group_is_restored_as_it_was_stored():
    group = Group.restored("g", STABLE)
    assert group.snapshot() == STABLE
    assert (group.group_id, group.state) == ("g", GroupState.STABLE)
    empty = STABLE._replace(members=(), leader_id="", empty_since_ms=7)
    assert Group.restored("g", empty).snapshot() == empty
    assert Group.restored("g", empty).state is GroupState.EMPTY


def test_a_copy_is_equal_and_goes_its_own_way():
    group = Group.restored("g", STABLE)
    copied = group.copy()
    assert copied == group
    copied.roster.put(Member("b", None, "", "", 1, 1, ()))
    copied.unsynced.add("b")
    copied.writing[1] = "assignment"
    assert (len(group.roster), group.unsynced, group.writing) == (1, set(), {})


def test_only_a_group_that_was_empty_fills():
    group = replace(Group("g", 0), state=GroupState.PREPARING_REBALANCE)
    assert group.filling()
    assert not replace(group, state_before=GroupState.STABLE).filling()
    assert not Group("g", 0).filling()


def test_what_is_read_is_known_of_consumers_that_can_be_read():
    group = Group.restored("g", STABLE)
    assert group.subscribed() == {"t"}
    assert (group.reads("t"), group.reads("u")) == (True, False)
    assert group.retention_state() == (None, {"t"})
    odd = MEMBER._replace(protocols=(("range", b"?"),))
    unknown = Group.restored("g", STABLE._replace(members=(odd,)))
    assert unknown.subscribed() is None
    assert unknown.reads("u")
    other = Group.restored("g", STABLE._replace(protocol_type="connect"))
    assert (other.subscribed(), other.is_simple_or_consumers()) == (None, False)
    assert not Group("g", 0).reads("t")


def test_metadata_is_shown_while_it_is_stable_and_assignments_always():
    group = Group.restored("g", STABLE)
    (shown,) = group.describe().members
    assert shown == ("a", "i", "c", "/h", READS_T, b"all")
    group.state = GroupState.PREPARING_REBALANCE
    view = group.describe()
    assert (view.protocol_name, view.members[0].metadata) == ("", b"")
    assert view.members[0].assignment == b"all"


def test_who_waits_is_listed():
    group = Group.restored("g", STABLE)
    assert not list(group.parked())
    (member,) = group.roster
    group.roster.put(member._replace(join_ticket="j", sync_ticket="s"))
    assert list(group.parked()) == ["j", "s"]


def test_a_group_is_never_used_until_it_had_a_generation():
    group = Group("g", 0)
    assert group.never_used()
    group.roster.pending.add("p")
    assert not group.abandoned()
    group.roster.pending.clear()
    group.generation = 2
    assert (group.abandoned(), group.never_used()) == (True, False)
