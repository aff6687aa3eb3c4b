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


def test_what_was_begun_lately_is_remembered_until_it_is_gone() -> None:
    sweep = Sweep()
    sweep.keep_begun(ONE, is_any=True)
    sweep.keep_begun(TWO, is_any=True)
    assert (sweep.has_begun(ONE), sweep.topics) == (True, {ONE, TWO})
    sweep.keep_begun(ONE, is_any=False)
    assert (sweep.has_begun(ONE), sweep.has_begun(TWO)) == (False, True)
    sweep.forget([TWO])
    assert not sweep.has_begun(TWO)
