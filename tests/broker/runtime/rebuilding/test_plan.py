"""What a new catalog holds, by what tables and segments say."""

import pytest

from broker.runtime.rebuilding.found_tables import FoundTable, FoundTables
from broker.runtime.rebuilding.plan import Answers, plan_topics
from lakehouse.topic_facts import TopicFacts


def table(name="t", number=3, partitions=2, configs=None, *, key=None, **more):
    topic_id = f"{key or number or 99:032x}"
    facts = TopicFacts(name, topic_id, partitions, number, configs)
    return FoundTable(f"tables/{name}", facts, more.pop("ends", {}), {0: 4}, **more)


def planned(*tables, held=None, ends=None, names=None, left=()):
    held = held or {}
    return plan_topics(
        FoundTables(list(tables)),
        held,
        {key: end for key, (_, end) in held.items()} | (ends or {}),
        Answers(names or {}, frozenset(left)),
        lambda: b"n" * 16,
    )


def test_a_topic_is_what_its_table_says():
    plan = planned(table(configs={"retention.ms": "1"}, ends={0: 9}))
    [one] = plan.topics
    assert (one.topic.number, one.topic.name, one.topic.partitions) == (3, "t", 2)
    assert (one.topic.id, one.topic.configs) == (
        bytes.fromhex(f"{3:032x}"), {"retention.ms": "1"},
    )  # fmt: skip
    assert (one.log_starts, one.table_ends) == ({0: 4}, {0: 9})
    assert (plan.problems, plan.unanswered, plan.remarks) == ([], [], [])
    assert plan.last_number == 3


def test_it_has_as_many_partitions_as_anybody_knows_of():
    assert planned(table(ends={4: 1})).topics[0].topic.partitions == 5
    found = planned(table(), held={(3, 6): (0, 1)}).topics[0]
    assert found.topic.partitions == 7


def test_a_table_of_the_version_before_gets_a_new_number_and_the_defaults():
    plan = planned(table(number=None), ends={(11, 0): 5})
    assert plan.topics[0].topic.number == 12
    assert plan.topics[0].topic.configs == {}
    assert "says nothing of its configurations" in plan.remarks[0]


def test_records_of_a_number_that_no_table_says_wait_for_an_answer():
    held = {(5, 0): (2, 9)}
    plan = planned(table("a"), table("b", None), held=held)
    assert plan.unanswered == [
        "no table is of number 5, and the log has its records (partition 0: offsets 2 "
        "to 8); b say none: name it with --topic 5=NAME, or give its records up with "
        "--leave 5"
    ]
    left = planned(table("a"), held=held, left=[5])
    assert left.unanswered == []
    assert left.remarks[-1].endswith("they are given up")
    assert left.last_number == 5
    answered = planned(table("a"), table("b", None), held=held, names={5: "b"})
    assert answered.unanswered == []
    assert {one.topic.name: one.topic.number for one in answered.topics} == {
        "a": 3, "b": 5,
    }  # fmt: skip


def test_a_topic_that_has_no_table_is_made_of_what_the_log_knows():
    plan = planned(held={(5, 2): (0, 9)}, names={5: "new"})
    [one] = plan.topics
    assert (one.topic.id, one.topic.number, one.topic.partitions) == (b"n" * 16, 5, 3)
    assert "has no table" in plan.remarks[0]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({4: "t"}, "4 is not its"),
        ({3: "other"}, "another topic has the number 3"),
        ({8: "other"}, "nothing has the number 8"),
        ({5: "a/b"}, "cannot be a topic"),
    ],
)
def test_an_answer_that_cannot_be_is_refused(names, words):
    plan = planned(table(), held={(5, 0): (0, 1)}, names=names)
    assert words in plan.unanswered[0]


def test_what_is_deleted_stays_so_and_takes_its_records_along():
    plan = planned(table("gone", 5, is_deleted=True), held={(5, 0): (0, 9)})
    assert plan.living == []
    assert plan.topics[0].is_deleted
    assert plan.unanswered == []


def test_a_number_that_several_say_is_nobodys_until_it_is_answered():
    tables = table("a", 3, key=1), table("b", 3, key=2), table("a", 4, key=1)
    held = {(3, 0): (2, 9)}
    plan = planned(*tables, held=held)
    assert {one.topic.name: one.topic.number for one in plan.topics} == {
        "a": 5, "b": 6,
    }  # fmt: skip
    assert all("neither is believed" in problem for problem in plan.problems)
    assert len(plan.problems) == 2
    assert "another table of a" in plan.remarks[-1]
    assert "name it with --topic 3=NAME" in plan.unanswered[0]
    answered = planned(*tables, held=held, names={3: "b"})
    assert answered.unanswered == []
    assert {one.topic.name: one.topic.number for one in answered.topics} == {
        "a": 5, "b": 3,
    }  # fmt: skip


def test_a_configuration_that_cannot_be_is_left_out():
    plan = planned(table(configs={"retention.ms": "soon", "segment.bytes": "1048576"}))
    assert plan.topics[0].topic.configs == {"segment.bytes": "1048576"}
    assert "loses retention.ms=soon" in plan.remarks[0]
