"""What a table says of its topic, as properties and as ``txn`` actions."""

import pytest

from lakehouse.topic_facts import (
    TopicFacts,
    facts_of,
    log_starts_of,
    properties_of,
    start_application,
)
from tests.support.tables import TOPIC_ID

FACTS = TopicFacts("Orders", TOPIC_ID, 12, 7, {"retention.ms": "1", "ä": "ö"})


def test_facts_come_back_as_they_were_said():
    assert facts_of(properties_of(FACTS)) == FACTS


def test_a_table_of_the_version_before_says_less():
    said = properties_of(FACTS._replace(number=None, configs=None))
    assert set(said) == {"lakelog.topic", "lakelog.topicId", "lakelog.partitions"}
    assert facts_of(said) == FACTS._replace(number=None, configs=None)


@pytest.mark.parametrize("key", ["lakelog.topic", "lakelog.topicId"])
def test_a_table_without_name_or_id_is_no_topics(key):
    said = properties_of(FACTS)
    assert facts_of({k: v for k, v in said.items() if k != key}) is None
    assert facts_of(said | {"lakelog.topicId": "../x"}) is None


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("lakelog.partitions", "many", FACTS._replace(partitions=1)),
        ("lakelog.partitions", "0", FACTS._replace(partitions=1)),
        ("lakelog.topicNumber", "-7", FACTS._replace(number=None)),
        ("lakelog.topicNumber", "9" * 30, FACTS._replace(number=None)),
        ("lakelog.configs", "{", FACTS._replace(configs=None)),
        ("lakelog.configs", "[1]", FACTS._replace(configs=None)),
        ("lakelog.configs", '{"a": 1, "b": "2"}', FACTS._replace(configs={"b": "2"})),
    ],
)
def test_what_cannot_be_understood_is_not_said(key, text, expected):
    assert facts_of(properties_of(FACTS) | {key: text}) == expected


def test_log_starts_are_told_from_ends_and_from_other_topics_starts():
    transactions = {
        TOPIC_ID: 3,
        f"{TOPIC_ID}/0": 100,
        start_application(TOPIC_ID, 0): 40,
        start_application(TOPIC_ID, 11): 5,
        start_application("f" * 32, 0): 9,
        f"{TOPIC_ID}/x/start": 8,
        "somebody": 1,
    }
    assert log_starts_of(transactions, TOPIC_ID) == {0: 40, 11: 5}
