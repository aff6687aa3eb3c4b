"""Each API and version that is served has been asked of a Kafka, or there is a reason.

The records in ``tests/clients`` are what a Kafka said; their first lines tell what was
asked for them (``tests/support/reached.py``), and Lakelog is held to all of it.
"""

import pytest

from broker.dispatch.registry import Registry
from broker.protocol.api_keys import ApiKey
from tests.architecture.sources import ROOT
from tests.support.plain_requests import NOT_HERE
from tests.support.reached import Pair, lines_of, pairs

RECORDS = sorted((ROOT / "tests" / "clients").glob("*_corners*.txt"))
SERVED = {
    (int(one.key), version)
    for one in Registry.discover().by_key.values()
    for version in range(one.first_version, one.last_version + 1)
}
ZOOKEEPERS = "it was ZooKeeper's, and a Kafka without one refuses it"
REFUSED_HERE = "it is refused here, and a Kafka has the new groups: differences.md"
NOT_ASKED: dict[Pair, str] = {
    (ApiKey.OFFSET_COMMIT, 0): ZOOKEEPERS,
    (ApiKey.OFFSET_FETCH, 0): ZOOKEEPERS,
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0): REFUSED_HERE,
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1): REFUSED_HERE,
}


def asked(name: str | None = None) -> set[Pair]:
    return {
        pair
        for record in RECORDS
        if name in (None, record.name)
        for pair in pairs(record.read_text().splitlines())
    }


def test_what_is_served_has_been_asked_of_a_kafka_or_there_is_a_reason() -> None:
    missing = SERVED - asked() - set(NOT_ASKED)
    assert not missing, lines_of(missing)


def test_no_reason_stands_for_what_has_been_asked() -> None:
    assert not set(NOT_ASKED) & asked()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_each_record_says_what_was_asked_for_it(record) -> None:
    lines = record.read_text().splitlines()
    told = lines_of(asked(record.name))
    assert told
    assert lines[: len(told)] == told


def test_what_a_kafka_lists_and_we_do_not_is_told_to_users() -> None:
    text = (ROOT / "infra" / "docs" / "differences.md").read_text()
    assert not NOT_HERE & {key for key, _ in SERVED}
    told = {number for low, high in _ranges(text) for number in range(low, high + 1)}
    assert told >= NOT_HERE, sorted(NOT_HERE - told)


def _ranges(text: str) -> list[tuple[int, int]]:
    """The numbers in the list of keys: ``17, 48-51``, after the words ``Keys:``."""
    line = next(line for line in text.splitlines() if "(keys " in line)
    found = []
    for part in line.partition("(keys ")[2].partition(")")[0].split(", "):
        low, _, high = part.partition("-")
        found.append((int(low), int(high or low)))
    return found
