"""The words of the dialogue: values, not objects with a life."""

import dataclasses

import pytest

from broker.groups.commands import Effects, Heartbeat, Join, Sync, TimerKey, TimerKind


def test_only_the_last_wish_for_a_timer_counts():
    effects = Effects()
    effects.timers[TimerKey(TimerKind.MEMBER, "a")] = 5
    effects.timers[TimerKey(TimerKind.MEMBER, "a")] = None
    effects.timers[TimerKey(TimerKind.JOIN)] = 7
    assert effects.timers == {("member", "a"): None, ("join", ""): 7}


@pytest.mark.parametrize(
    "command",
    [Join("", 1, 1, "consumer", ()), Sync("a", 1), Heartbeat("a", 1)],
    ids=lambda command: type(command).__name__,
)
def test_a_command_gets_its_ticket_by_being_replaced(command):
    ticketed = dataclasses.replace(command, ticket="t")
    assert (command.ticket, ticketed.ticket) == (None, "t")
    with pytest.raises(dataclasses.FrozenInstanceError):
        command.ticket = "other"
