"""What figures are held to."""

from infra.bench.goals import at_least, at_most, no_goal, of_kafka


def test_a_limit_holds_for_the_figure_alone():
    assert at_most(10).holds(10, None)
    assert not at_most(10).holds(10.1, 100)
    assert at_least(100).holds(100, None)
    assert not at_least(100).holds(99, 1)
    assert at_most(1).text == "<= 1"
    assert at_least(100).text == ">= 100"


def test_a_ratio_holds_beside_kafkas_figure_and_says_nothing_without():
    half = of_kafka(0.5)
    assert half.holds(50, 100) is True
    assert half.holds(49, 100) is False
    assert half.holds(49, None) is None
    assert half.text == ">= 0.5 of Kafka's"
    assert half.beside == "Kafka"


def test_a_ratio_may_be_of_a_kafka_that_syncs():
    goal = of_kafka(1.5, "Kafka, fsync")
    assert (goal.beside, goal.text) == (
        "Kafka, fsync",
        ">= 1.5 of Kafka's (Kafka, fsync)",
    )


def test_what_has_no_goal_is_neither_met_nor_missed():
    assert no_goal().holds(1, 2) is None
    assert no_goal().text == ""
