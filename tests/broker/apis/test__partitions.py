"""Topics and partitions, gone through in turns."""

from broker.apis._partitions import each_in_turns
from broker.dispatch.turns import ITEMS_A_TURN, at_once

MANY = list(range(3 * ITEMS_A_TURN))


def test_each_partition_is_answered_in_its_order():
    asked = {"a": [2, 0], "b": [], "c": [1]}
    steps = each_in_turns(asked, lambda name: asked[name], lambda n, p: f"{n}{p}")
    assert at_once(steps) == [("a", ["a2", "a0"]), ("b", []), ("c", ["c1"])]


def test_many_partitions_take_several_turns_and_so_do_many_empty_topics():
    assert len(list(each_in_turns(["a"], lambda _: MANY, lambda _, p: p))) == 3
    assert len(list(each_in_turns(MANY, lambda _: [], lambda _, p: p))) == 3
