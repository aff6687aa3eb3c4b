"""A decision is a value, and any state with ``decide`` and ``apply`` is a machine."""

from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import pytest

from broker.groups.classic import ClassicGroup
from broker.groups.commits import Commits
from broker.groups.group import Group
from broker.groups.limits import GroupLimits
from broker.machine import Decision


@dataclass(frozen=True)
class Added:
    durable: ClassVar[bool] = True
    amount: int


@dataclass
class Sum:
    """The smallest machine: it adds what is positive."""

    total: int = 0

    def decide(self, command: int, now_ms: int) -> Decision[Added, int]:
        if command <= 0:
            return Decision()
        return Decision((Added(command),), (("t", self.total + command),))

    def apply(self, event: Added) -> None:
        self.total += event.amount


def test_a_decision_may_be_that_nothing_happens():
    assert Sum().decide(0, 0) == Decision((), (), {})


def test_a_decision_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Decision().events = (Added(1),)


def test_state_changes_by_events_only_and_a_replay_is_the_same():
    machine, replayed, events = Sum(), Sum(), []
    for command in (3, -1, 4):
        before = machine.total
        decision = machine.decide(command, 0)
        assert machine.total == before
        events += decision.events
        for event in decision.events:
            machine.apply(event)
    for event in events:
        replayed.apply(event)
    assert replayed == machine == Sum(7)


def test_groups_and_offsets_are_machines():
    for machine in (ClassicGroup(GroupLimits(), Group("g", 0)), Commits(), Sum()):
        assert all(callable(getattr(machine, name)) for name in ("decide", "apply"))
