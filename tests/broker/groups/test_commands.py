"""The words of the dialogue: values, not objects with a life."""

import dataclasses

import pytest

from broker.groups.commands import Heartbeat, Join, Leave, Sync, TimerKey, TimerKind


def test_a_timer_is_named_by_its_kind_and_member():
    timers = {TimerKey(TimerKind.MEMBER, "a"): 5, TimerKey(TimerKind.JOIN): 7}
    assert timers == {("member", "a"): 5, ("join", ""): 7}


@pytest.mark.parametrize(
    "command",
    [Join("", 1, 1, "consumer", ()), Sync("a", 1), Heartbeat("a", 1), Leave(())],
    ids=lambda command: type(command).__name__,
)
def test_a_command_gets_its_ticket_by_being_replaced(command):
    ticketed = dataclasses.replace(command, ticket="t")
    assert (command.ticket, ticketed.ticket) == (None, "t")
    with pytest.raises(dataclasses.FrozenInstanceError):
        command.ticket = "other"
