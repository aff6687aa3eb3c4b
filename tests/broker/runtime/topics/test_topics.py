"""Topics: the image follows the catalog, and watchers follow the image."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog import topics as stored
from broker.catalog.catalog import Catalog
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.topics.topics import Topics
from broker.topics.topic import CONSUMER_OFFSETS, Topic
from tests.support.clock import ManualClock
from tests.support.patience import IDLE_S
from tests.support.rig import run


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process is inside a transaction of its own."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


class Diary:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def topic_created(self, topic: Topic) -> None:
        self.told.append(("created", topic.name))

    def topic_changed(self, topic: Topic) -> None:
        self.told.append(("changed", topic.name))

    def topic_deleted(self, topic: Topic) -> None:
        self.told.append(("deleted", topic.name))


def test_watchers_are_told_of_everything(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics, diary = Topics(catalog, ManualClock()), Diary()
            topics.watch(diary)
            topic = await topics.create("t", 1, {})
            await topics.add_partitions(topic, 2)
            await topics.alter_configs(topic, lambda _: {"retention.ms": "5"})
            await topics.delete(topic)
            changes = [what for what, _ in diary.told]
            assert changes == ["created", "changed", "changed", "deleted"]

    run(scenario)


def test_the_catalog_has_what_was_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics = Topics(catalog, ManualClock())
            topic = await topics.create("t", 1, {"retention.ms": "5"})
            await topics.create("other", 1, {})
            assert catalog.read(stored.load)[0] == topic
            grown = await topics.add_partitions(topic, 3)
            assert catalog.read(stored.load)[0] == grown == topics.get("t")
            await topics.set_log_starts({(topic.number, 1): 9})
            assert catalog.read(stored.load_log_starts) == {(topic.number, 1): 9}
            await topics.delete(topic)
            assert [one.name for one in catalog.read(stored.load)] == ["other"]

    run(scenario)


def test_a_topic_is_found_by_name_id_and_number(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics = Topics(catalog, ManualClock(), new_id=lambda: b"i" * 16)
            topic = await topics.create("t", 1, {})
            assert topics.get("t") is topic
            assert topics.by_id(b"i" * 16) is topic
            assert topics.by_number(topic.number) is topic
            assert list(topics.all()) == [topic]
            await topics.delete(topic)
            assert topics.get("t") is None
            assert topics.by_id(b"i" * 16) is None
            assert topics.by_number(topic.number) is None

    run(scenario)


def test_a_topic_is_there_until_its_deletion_is_durable(tmp_path: Path) -> None:
    """Whatever asks meanwhile, the release of segments too, finds it alive."""

    async def scenario() -> None:
        path = tmp_path / "catalog.db"
        with Catalog.open(path, busy_ms=200) as catalog:
            topics, diary = Topics(catalog, ManualClock()), Diary()
            topic = await topics.create("t", 1, {})
            topics.watch(diary)
            with locked(path):
                deleting = asyncio.ensure_future(topics.delete(topic))
                while not deleting.done():
                    assert topics.get("t") is topic
                    assert topics.by_id(topic.id) is topic
                    assert topics.by_number(topic.number) is topic
                    await asyncio.sleep(0.01)
            with pytest.raises(KafkaError, match="locked") as refused:
                await deleting
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert topics.get("t") is topic
            assert diary.told == []
            await topics.delete(topic)
            assert (topics.get("t"), diary.told) == (None, [("deleted", "t")])

    run(scenario)


def test_of_two_deletions_the_second_finds_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics, diary = Topics(catalog, ManualClock()), Diary()
            topic = await topics.create("t", 1, {})
            topics.watch(diary)
            first, second = await asyncio.gather(
                topics.delete(topic), topics.delete(topic), return_exceptions=True
            )
            assert first is None
            assert isinstance(second, KafkaError)
            assert second.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert diary.told == [("deleted", "t")]

    run(scenario)


@pytest.mark.parametrize("what", ["create", "delete", "grow", "alter"])
def test_a_change_that_nobody_waits_for_any_more_is_seen(
    tmp_path: Path, what: str
) -> None:
    """A client that goes away cancels its handler, not what the catalog commits."""

    async def scenario() -> None:
        path = tmp_path / "catalog.db"
        with Catalog.open(path, busy_ms=int(IDLE_S * 1000)) as catalog:
            topics = Topics(catalog, ManualClock())
            topic = await topics.create("t", 1, {})
            with locked(path):
                change = asyncio.ensure_future(
                    {
                        "create": lambda: topics.create("u", 1, {}),
                        "delete": lambda: topics.delete(topic),
                        "grow": lambda: topics.add_partitions(topic, 2),
                        "alter": lambda: topics.alter_configs(
                            topic, lambda _: {"retention.ms": "5"}
                        ),
                    }[what]()
                )
                await asyncio.sleep(0.05)
                change.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await change
            await topics.set_log_starts({})  # behind it
            assert list(topics.all()) == catalog.read(stored.load)
            assert list(topics.all()) != [topic]

    run(scenario)


def test_a_deletion_that_failed_leaves_the_topic(tmp_path: Path) -> None:
    class Failing:
        def __init__(self, catalog: Catalog) -> None:
            self.catalog, self.failing = catalog, False

        def submit(self, change: Any) -> Any:
            if not self.failing:
                return self.catalog.submit(change)

            def fail(_: Any) -> None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")

            return self.catalog.submit(fail)

    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            failing = Failing(catalog)
            topics, diary = Topics(failing, ManualClock()), Diary()
            topic = await topics.create("t", 1, {})
            topics.watch(diary)
            failing.failing = True
            with pytest.raises(KafkaError, match="full"):
                await topics.delete(topic)
            assert topics.get("t") == topic
            with pytest.raises(KafkaError, match="full"):
                await topics.add_partitions(topic, 5)
            assert topics.get("t") == topic
            with pytest.raises(KafkaError, match="full"):
                await topics.create("u", 1, {})
            assert topics.get("u") is None
            assert diary.told == []
            failing.failing = False
            assert await topics.create("u", 1, {})

    run(scenario)


def test_whoever_wants_a_topic_waits_for_the_one_being_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics = Topics(catalog, ManualClock())
            found = await asyncio.gather(*(topics.ensure("t", 1, {}) for _ in range(5)))
            assert len({topic.id for topic in found}) == 1

    run(scenario)


@pytest.mark.parametrize("other", ["a_b", "a.b"])
def test_names_collide_with_topics_that_are_being_made(
    tmp_path: Path, other: str
) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics = Topics(catalog, ManualClock())
            making = asyncio.ensure_future(topics.create("a.b", 1, {}))
            await asyncio.sleep(0)
            with pytest.raises(KafkaError) as refused:
                await topics.create(other, 1, {})
            exists, invalid = (
                ErrorCode.TOPIC_ALREADY_EXISTS,
                ErrorCode.INVALID_TOPIC_EXCEPTION,
            )
            assert refused.value.code == (exists if other == "a.b" else invalid)
            await making

    run(scenario)


def test_changes_of_a_topic_that_is_gone_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics = Topics(catalog, ManualClock())
            topic = await topics.create("t", 1, {})
            await topics.delete(topic)
            for change in (
                topics.delete(topic),
                topics.add_partitions(topic, 3),
                topics.alter_configs(topic, lambda configs: dict(configs)),
            ):
                with pytest.raises(KafkaError) as refused:
                    await change
                code = refused.value.code
                assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)


async def code_of(change: Any) -> ErrorCode:
    """How the broker refuses a change."""
    with pytest.raises(KafkaError) as caught:
        await change
    return caught.value.code


def test_no_more_partitions_than_the_settings_allow(tmp_path: Path) -> None:
    """Those count that are there, and those that are being made."""
    full = ErrorCode.POLICY_VIOLATION

    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics = Topics(catalog, ManualClock(), partitions_max=10)
            topics.load([])  # with the topic that is only shown, which takes no room
            first = await topics.create("a", 4, {})
            making = asyncio.ensure_future(topics.create("b", 4, {}))
            await asyncio.sleep(0)
            assert await code_of(topics.create("c", 3, {})) == full
            assert await code_of(topics.add_partitions(first, 7)) == full
            await making
            growing = asyncio.ensure_future(topics.add_partitions(first, 6))
            await asyncio.sleep(0)
            assert await code_of(topics.create("c", 1, {})) == full
            first = await growing
            assert await code_of(topics.create("c", 1, {})) == full
            await topics.delete(first)
            assert await code_of(topics.create("c", 7, {})) == full
            await topics.create("c", 6, {})
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            again = Topics(catalog, ManualClock(), partitions_max=11)
            again.load(catalog.read(stored.load))
            assert await code_of(again.create("d", 2, {})) == full
            await again.create("d", 1, {})

    run(scenario)


def test_a_change_that_failed_takes_no_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "catalog.db"
        with Catalog.open(path, busy_ms=100) as catalog:
            topics = Topics(catalog, ManualClock(), partitions_max=10)
            topic = await topics.create("t", 1, {})
            with locked(path):
                for change in (
                    topics.create("a.b", 9, {}),
                    topics.add_partitions(topic, 10),
                ):
                    assert await code_of(change) == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await topics.create("a_b", 9, {})).partitions == 9

    run(scenario)


def test_all_is_in_the_order_of_names_whatever_came_and_went(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics = Topics(catalog, ManualClock())
            topics.load([])
            expected = {"__consumer_offsets"}
            assert [topic.name for topic in topics.all()] == list(expected)
            for name in ("m", "c", "x", "-m", "m", "c", "a"):
                topic = topics.get(name)
                if topic is None:
                    await topics.create(name, 1, {})
                else:
                    await topics.delete(topic)
                expected ^= {name}
                assert [topic.name for topic in topics.all()] == sorted(expected)
                assert len(topics) == len(expected) - 1  # one is only shown

    run(scenario)


def test_what_was_made_of_a_topic_goes_with_it_and_with_nothing_else(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics = Topics(catalog, ManualClock())
            kept, gone = [await topics.create(name, 1, {}) for name in ("t", "u")]
            for what in ("one", "other"):
                made = topics.derived(what)
                made |= {topic.number: (topic, b"bytes") for topic in (kept, gone)}
            await topics.delete(gone)
            for what in ("one", "other"):
                assert topics.derived(what) == {kept.number: (kept, b"bytes")}
            assert topics.derived("third") == {}

    run(scenario)


@pytest.mark.parametrize(
    ("name", "partitions", "configs", "code"),
    [
        ("a/b", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("there", 1, {}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ("__consumer_offsets", 1, {}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ("__transaction_state", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("the_re.", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("t", 0, {}, ErrorCode.INVALID_PARTITIONS),
        ("t", 10_001, {}, ErrorCode.POLICY_VIOLATION),
        ("t", 1, {"retention.ms": "long"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_topic_that_may_not_be_made_is_refused(
    name: str, partitions: int, configs: dict[str, str], code: ErrorCode
) -> None:
    topics = Topics(SimpleNamespace(), ManualClock())
    topics.load([Topic(1, b"1" * 16, "there", 1), Topic(2, b"2" * 16, "the.re_", 1)])
    with pytest.raises(KafkaError) as caught:
        topics.check_new(name, partitions, configs)
    assert caught.value.code == code
    kept = {"retention.ms": "5"}
    assert topics.check_new("t", 10_000, kept) == kept


def test_a_topic_grows_and_never_shrinks() -> None:
    topics = Topics(SimpleNamespace(), ManualClock())
    topic = Topic(1, b"1" * 16, "there", 3)
    topics.load([topic])
    for total, code, why in (
        (3, ErrorCode.INVALID_PARTITIONS, "already has 3"),
        (2, ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (10_004, ErrorCode.POLICY_VIOLATION, "large number"),
    ):
        with pytest.raises(KafkaError, match=why) as caught:
            topics.check_added(topic, total)
        assert caught.value.code == code
    topics.check_added(topic, 10_003)
    with pytest.raises(KafkaError) as caught:
        topics.check_added(CONSUMER_OFFSETS, 51)
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_edits_of_one_topic_follow_each_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics = Topics(catalog, ManualClock())
            topic = await topics.create("t", 1, {})
            keys = ("retention.ms", "retention.bytes", "max.message.bytes")
            await asyncio.gather(
                *(
                    topics.alter_configs(topic, lambda now, key=key: {**now, key: "9"})
                    for key in keys
                )
            )
            assert topics.named("t").configs == dict.fromkeys(keys, "9")
            assert catalog.read(stored.load) == [topics.named("t")]

    run(scenario)


def test_what_is_deleted_while_it_is_changed_stays_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            topics, diary = Topics(catalog, ManualClock()), Diary()
            topic = await topics.create("t", 1, {})
            topics.watch(diary)
            grown, _ = await asyncio.gather(
                topics.add_partitions(topic, 2), topics.delete(topic)
            )
            assert grown.partitions == 2
            assert await code_of(topics.alter_configs(grown, dict)) == (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            assert [topic.name for topic in topics.all()] == []
            assert diary.told[-1] == ("deleted", "t")

    run(scenario)


def test_a_topic_that_nobody_has_is_refused_by_name_and_by_id() -> None:
    topics = Topics(SimpleNamespace(), ManualClock())
    topic = Topic(1, b"1" * 16, "there", 3)
    topics.load([topic])
    assert topics.named("there") is topics.identified(b"1" * 16) is topic
    for find, code in (
        (lambda: topics.named("t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda: topics.identified(b"?" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
    ):
        with pytest.raises(KafkaError) as caught:
            find()
        assert caught.value.code == code
    assert topics.is_valid_name("t")
    assert not topics.is_valid_name("a/b")
