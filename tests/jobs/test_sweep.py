"""A table is looked through once, after trouble, and now and then."""

from broker.ids import TopicNumber
from jobs.sweep import AGAIN_MS, Sweep

ONE, TWO = TopicNumber(1), TopicNumber(2)


def test_each_table_is_looked_at_once_and_again_much_later() -> None:
    sweep = Sweep()
    assert sweep.is_due(ONE, 5)
    sweep.looked(ONE, 5)
    assert not sweep.is_due(ONE, 5)
    assert not sweep.is_due(ONE, 4 + AGAIN_MS)
    assert sweep.is_due(ONE, 5 + AGAIN_MS)
    assert sweep.is_due(TWO, 6)


def test_a_wall_clock_that_is_set_back_puts_nothing_off() -> None:
    sweep = Sweep()
    sweep.looked(ONE, 10 * AGAIN_MS)
    assert sweep.is_due(ONE, 10 * AGAIN_MS - 1)


def test_after_trouble_it_is_looked_at_again() -> None:
    sweep = Sweep()
    for number in (ONE, TWO):
        sweep.looked(number, 5)
    sweep.suspect([ONE])
    assert (sweep.is_due(ONE, 6), sweep.is_due(TWO, 6)) == (True, False)


def test_what_was_left_is_remembered_until_the_topic_goes() -> None:
    sweep = Sweep()
    sweep.keep(ONE, {"a": 7})
    sweep.looked(TWO, 5)
    assert (sweep.left(ONE), sweep.left(TWO)) == ({"a": 7}, {})
    assert sweep.topics == {ONE, TWO}
    sweep.forget(sweep.topics - {TWO})
    assert (sweep.left(ONE), sweep.topics) == ({}, {TWO})


def test_what_says_that_it_changes_later_is_dated_by_when_it_was_seen_first() -> None:
    sweep = Sweep()
    assert sweep.dated(ONE, {"a": 7, "b": 15, "c": 16}, 5, 10) == {
        "a": 7, "b": 15, "c": 5,
    }  # fmt: skip
    assert sweep.dated(ONE, {"c": 99}, 6, 10) == {"c": 6}, "it has changed"
    assert sweep.dated(ONE, {"c": 99, "d": 99}, 8, 10) == {"c": 6, "d": 8}
    assert sweep.dated(TWO, {"c": 99}, 9, 10) == {"c": 9}
    assert sweep.dated(ONE, {"d": 99}, 10, 10) == {"d": 8}
    assert sweep.dated(ONE, {"c": 99}, 11, 10) == {"c": 11}, "it was gone"
    assert sweep.topics == {ONE, TWO}
    sweep.forget([ONE])
    assert sweep.dated(TWO, {}, 12, 10) == {}
    assert sweep.topics == set()


def test_a_file_is_in_no_table_since_it_was_first_seen_so() -> None:
    sweep = Sweep()
    assert sweep.seen(ONE, ["a"], 5) == {"a": 5}
    assert sweep.seen(ONE, ["a", "b"], 7) == {"a": 5, "b": 7}
    assert sweep.seen(TWO, ["a"], 8) == {"a": 8}
    assert sweep.seen(ONE, ["b"], 9) == {"b": 7}
    assert sweep.seen(ONE, ["a", "b"], 6) == {"a": 6, "b": 6}, "a clock is set back"
    sweep.forget([ONE])
    assert (sweep.seen(ONE, ["a"], 9), sweep.topics) == ({"a": 9}, {ONE, TWO})
    assert (sweep.seen(ONE, [], 9), sweep.topics) == ({}, {TWO})


def test_what_was_begun_lately_is_remembered_until_it_is_gone() -> None:
    sweep = Sweep()
    sweep.keep_begun(ONE, is_any=True)
    sweep.keep_begun(TWO, is_any=True)
    assert (sweep.has_begun(ONE), sweep.topics) == (True, {ONE, TWO})
    sweep.keep_begun(ONE, is_any=False)
    assert (sweep.has_begun(ONE), sweep.has_begun(TWO)) == (False, True)
    sweep.forget([TWO])
    assert not sweep.has_begun(TWO)
