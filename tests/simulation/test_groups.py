"""What the judge of groups allows, and what it does not."""

import pytest

from tests.simulation.groups import GroupModel
from tests.simulation.model import Violation


def test_who_was_told_of_a_newer_generation_has_fenced_the_older_ones() -> None:
    group = GroupModel("g")
    group.synced(3, ["t-0"], "a")
    group.check(group.newest, 3, "commit")
    before = group.newest
    group.synced(4, ["t-0"], "b")
    group.check(before, 3, "a commit that left before")
    with pytest.raises(Violation, match="4 has fenced it"):
        group.check(group.newest, 3, "commit")


def test_a_generation_that_was_told_late_fences_nobody_newer() -> None:
    group = GroupModel("g")
    group.synced(4, [], "b")
    group.synced(3, [], "a")
    assert group.newest == 4


def test_a_partition_has_one_owner_in_a_generation() -> None:
    group = GroupModel("g")
    group.synced(1, ["t-0"], "a")
    group.synced(1, ["t-0"], "a")
    group.synced(2, ["t-0"], "b")
    with pytest.raises(Violation, match="a has it, and b"):
        group.synced(1, ["t-0"], "b")
