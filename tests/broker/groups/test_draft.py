"""A decision in the making: it sees its own events, and the group does not."""

from broker.groups.commands import Refused, TimerKey, TimerKind
from broker.groups.draft import SYNC_TIMER, Draft
from broker.groups.events import GenerationBegan, MemberPut, TypeChosen, WriteBegan
from broker.groups.group import Group
from broker.groups.limits import GroupLimits
from broker.groups.members import Member
from broker.protocol.errors import ErrorCode

ONE = Member("a", None, "", "", 10, 20, (("range", b"m"),), join_ticket="j")


def a_draft(*members: Member) -> Draft:
    group = Group("g", 0, leader_id="a" if members else "")
    for member in members:
        group.roster.put(member)
    return Draft(group, GroupLimits(), 7)


def test_the_group_is_not_copied_before_something_happens():
    draft = a_draft()
    group = draft.group
    draft.reply("t", Refused(ErrorCode.UNKNOWN_MEMBER_ID))
    assert draft.group is group
    draft.record(TypeChosen("consumer"))
    assert (draft.group.protocol_type, group.protocol_type) == ("consumer", "")
    copied = draft.group
    draft.put(ONE)
    assert draft.group is copied
    assert draft.decision().events == (TypeChosen("consumer"), MemberPut(ONE))


def test_answers_keep_their_order_but_for_the_first():
    draft, refused = a_draft(), Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    draft.reply("a", refused)
    draft.reply("b", refused)
    draft.reply("c", refused, first=True)
    assert [ticket for ticket, _ in draft.decision().replies] == ["c", "a", "b"]


def test_of_a_timer_the_last_word_counts():
    draft = a_draft()
    draft.schedule(SYNC_TIMER, 5)
    draft.cancel(SYNC_TIMER)
    draft.expect_heartbeat(ONE)
    session = TimerKey(TimerKind.MEMBER, "a")
    assert draft.decision().timers == {SYNC_TIMER: None, session: 10}


def test_who_is_removed_is_refused_watched_no_longer_and_leads_no_longer():
    other = Member("b", None, "", "", 10, 20, (("range", b""),))
    draft = a_draft(ONE, other)
    draft.record(GenerationBegan(1, "range"))
    draft.remove(ONE, ErrorCode.UNKNOWN_MEMBER_ID)
    decision = draft.decision()
    assert decision.replies == (("j", Refused(ErrorCode.UNKNOWN_MEMBER_ID)),)
    assert decision.timers == {TimerKey(TimerKind.MEMBER, "a"): None}
    assert (draft.group.leader_id, draft.group.unsynced) == ("b", {"b"})
    draft.remove(other, ErrorCode.UNKNOWN_MEMBER_ID)
    assert draft.group.leader_id == ""
    assert draft.decision().timers[SYNC_TIMER] is None


def test_an_id_is_dropped_once():
    draft = a_draft()
    draft.group.roster.pending.add("p")
    assert draft.drop_id("p")
    assert not draft.drop_id("p")


def test_what_is_to_be_written_is_the_group_as_it_is_by_then():
    draft = a_draft(ONE)
    draft.record(GenerationBegan(4, "range"))
    draft.write("assignment")
    *_, event = draft.decision().events
    assert event == WriteBegan(1, draft.group.snapshot(), "assignment")
    assert event.snapshot.generation == 4
    draft.write()
    assert draft.decision().events[-1].serial == 2


def test_a_parked_sync_is_answered_once():
    draft = a_draft()
    waiting = draft.put(ONE, sync_ticket="s", assignment=b"part")
    assert waiting.sync_ticket == "s"
    draft.answer_syncs()
    draft.answer_syncs()
    ((ticket, reply),) = draft.decision().replies
    assert (ticket, reply.assignment) == ("s", b"part")
