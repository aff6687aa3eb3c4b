"""Topics in the catalog: one name, one number, and a deletion in two steps."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker.catalog import offsets, pending_offsets, released_ends, topics
from broker.catalog.catalog import Catalog
from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.topic import Topic

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def created(catalog: Catalog, name: str, **configs: str) -> Topic:
    topic_id = len(catalog.read(topics.load)).to_bytes(4, "big") + name.encode()
    return catalog.change(
        lambda c: topics.create(c, name, topic_id.ljust(16)[:16], 2, configs, 10)
    )


def refusal(catalog: Catalog, change: Callable[[Any], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        catalog.change(change)
    return caught.value.code


def test_a_topic_comes_back_as_it_was_made(catalog: Catalog) -> None:
    one, two = created(catalog, "one"), created(catalog, "two", a="b")
    assert catalog.read(topics.load) == [one, two]
    assert (two.configs, two.partitions, len(two.id)) == ({"a": "b"}, 2, 16)


def test_a_name_is_taken_until_it_is_deleted(catalog: Catalog) -> None:
    first = created(catalog, "t")
    again: Callable[[Any], object] = lambda c: topics.create(  # noqa: E731
        c, "t", b"another id......", 1, {}, 20
    )
    assert refusal(catalog, again) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert created(catalog, "T").name == "T"
    catalog.change(lambda c: topics.delete(c, first.number, 30))
    catalog.change(again)
    assert [topic.name for topic in catalog.read(topics.load)] == ["T", "t"]


def test_one_topic_is_found_by_its_name_while_it_lives(catalog: Catalog) -> None:
    topic, other = created(catalog, "b"), created(catalog, "a")
    catalog.change(lambda c: topics.set_log_start(c, {(topic.number, 1): 7}))
    catalog.change(lambda c: topics.set_log_start(c, {(other.number, 0): 3}))
    assert catalog.read(topics.load_names) == ["a", "b"]
    assert catalog.read(lambda c: topics.find(c, "b")) == topic
    assert catalog.read(lambda c: topics.find_log_starts(c, topic.number)) == {
        (topic.number, 1): 7
    }
    catalog.change(lambda c: topics.delete(c, topic.number, 20))
    assert catalog.read(lambda c: topics.find(c, "b")) is None
    assert catalog.read(topics.load_names) == ["a"]


def test_a_number_is_never_given_twice(catalog: Catalog) -> None:
    last = created(catalog, "t")
    catalog.change(lambda c: topics.delete(c, last.number, 20))
    catalog.change(lambda c: topics.forget(c, last.number))
    assert catalog.read(topics.list_deleted) == []
    assert created(catalog, "t").number > last.number


def test_a_deleted_topic_is_listed_until_it_is_forgotten(catalog: Catalog) -> None:
    topic = created(catalog, "t")
    catalog.change(lambda c: topics.set_log_start(c, {(topic.number, 0): 5}))
    catalog.change(lambda c: topics.delete(c, topic.number, 20))
    assert catalog.read(topics.load) == []
    assert catalog.read(topics.list_deleted) == [(topic, 20)]
    catalog.change(lambda c: topics.forget(c, topic.number))
    assert catalog.read(topics.list_deleted) == []
    assert catalog.read(topics.load_log_starts) == {}


def test_what_is_alive_is_not_forgotten(catalog: Catalog) -> None:
    topic = created(catalog, "t")
    catalog.change(lambda c: topics.forget(c, topic.number))
    assert catalog.read(topics.load) == [topic]


def test_a_deleted_topic_is_revived_as_itself_but_for_its_number(
    catalog: Catalog,
) -> None:
    first = created(catalog, "t", a="b")
    assert refusal(catalog, lambda c: topics.revive(c, first.number, {})) == UNKNOWN
    catalog.change(lambda c: topics.set_log_start(c, {(first.number, 1): 7}))
    catalog.change(lambda c: topics.delete(c, first.number, 30))
    catalog.change(lambda c: released_ends.raise_to(c, {(first.number, 0): 9}))
    back = catalog.change(lambda c: topics.revive(c, first.number, {0: 11}))
    assert back == replace(first, number=back.number)
    assert back.number > first.number
    assert catalog.read(topics.load) == [back]
    assert catalog.read(topics.list_deleted) == []
    assert catalog.read(topics.load_log_starts) == {(back.number, 1): 7}
    assert catalog.read(released_ends.load) == {(back.number, 0): 11}


def test_a_topic_whose_name_is_taken_is_not_revived(catalog: Catalog) -> None:
    first = created(catalog, "t")
    catalog.change(lambda c: topics.delete(c, first.number, 30))
    other = catalog.change(lambda c: topics.create(c, "t", b"o" * 16, 1, {}, 40))
    taken = ErrorCode.TOPIC_ALREADY_EXISTS
    assert refusal(catalog, lambda c: topics.revive(c, first.number, {})) == taken
    assert catalog.read(topics.load) == [other]
    assert len(catalog.read(topics.list_deleted)) == 1


def test_a_deletion_takes_the_committed_offsets_along(catalog: Catalog) -> None:
    one, two = created(catalog, "one"), created(catalog, "two")
    stored = offsets.CommittedOffset(7)
    for topic in (one, two):
        catalog.change(
            lambda c, n=topic.number: offsets.commit(c, "g", {(n, 0): stored})
        )
    catalog.change(lambda c: topics.delete(c, one.number, 20))
    assert catalog.read(offsets.load) == {"g": {(two.number, 0): stored}}


def test_a_deletion_takes_along_what_is_pending(catalog: Catalog) -> None:
    one, two = created(catalog, "one"), created(catalog, "two")
    stored = offsets.CommittedOffset(7)
    given = {(topic.number, 0): stored for topic in (one, two)}
    catalog.change(lambda c: pending_offsets.add(c, "g", 70, given))
    catalog.change(lambda c: topics.delete(c, one.number, 20))
    left = {(two.number, 0): stored}
    assert catalog.read(pending_offsets.load) == {"g": {70: left}}
    catalog.change(lambda c: pending_offsets.end(c, "g", 70, commits=True))
    assert catalog.read(offsets.load) == {"g": left}


def test_partitions_only_grow(catalog: Catalog) -> None:
    number = created(catalog, "t").number
    catalog.change(lambda c: topics.add_partitions(c, number, 5))
    for total in (5, 4):
        code = refusal(catalog, lambda c, n=total: topics.add_partitions(c, number, n))
        assert code == ErrorCode.INVALID_PARTITIONS
    assert catalog.read(topics.load)[0].partitions == 5


def test_settings_are_replaced_as_a_whole(catalog: Catalog) -> None:
    number = created(catalog, "t", a="1", b="2").number
    catalog.change(lambda c: topics.alter_configs(c, number, {"b": "3"}))
    assert catalog.read(topics.load)[0].configs == {"b": "3"}


@pytest.mark.parametrize("deleted", [False, True])
def test_an_unknown_topic_is_refused(catalog: Catalog, deleted: bool) -> None:
    number = 99
    if deleted:
        number = created(catalog, "t").number
        catalog.change(lambda c: topics.delete(c, number, 20))
    changes: list[Callable[[Any], object]] = [
        lambda c: topics.delete(c, number, 30),
        lambda c: topics.add_partitions(c, number, 30),
        lambda c: topics.alter_configs(c, number, {}),
    ]
    for change in changes:
        assert refusal(catalog, change) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_log_starts_are_the_last_that_was_set(catalog: Catalog) -> None:
    catalog.change(lambda c: topics.set_log_start(c, {(1, 0): 5, (1, 1): 2**40}))
    catalog.change(lambda c: topics.set_log_start(c, {(1, 0): 9}))
    catalog.change(lambda c: topics.set_log_start(c, {}))
    assert catalog.read(topics.load_log_starts) == {(1, 0): 9, (1, 1): 2**40}
