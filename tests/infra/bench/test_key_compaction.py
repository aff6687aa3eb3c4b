"""The bench of key compaction: it knows which records must stay, and judges by that."""

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from infra.bench import brokers, key_compaction, tools
from infra.bench.key_compaction import last_offsets

RECORDS, KEYS = 3_000, 500


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keyed")
    tools.build(folder)
    found = brokers.LakelogAlone(folder / "broker")
    try:
        found.start()
        key_compaction._produce(folder, found.address, RECORDS, KEYS)
        yield found
    finally:
        found.stop()


def keys_of(address: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "keys"})
    consumer.assign([TopicPartition(key_compaction.TOPIC, 0, OFFSET_BEGINNING)])
    keys: list[bytes] = []
    while len(keys) < RECORDS:
        found = consumer.consume(RECORDS, 10.0)
        assert found, "nothing comes any more"
        keys += [message.key() for message in found]
    consumer.close()
    return keys


def test_the_last_record_of_each_key_is_known_without_reading(broker):
    naive = {key: offset for offset, key in enumerate(keys_of(broker.address))}
    assert last_offsets(RECORDS, KEYS).tolist() == sorted(naive.values())
    assert len(naive) > KEYS * 0.9


def test_a_log_that_nobody_cleaned_is_not_taken_for_a_clean_one(broker):
    with pytest.raises(AssertionError, match="records were left"):
        key_compaction._judge(broker.address, RECORDS, KEYS, end=RECORDS)


def test_what_lies_behind_the_clean_is_there_whole(broker):
    key_compaction._judge(broker.address, RECORDS, KEYS, end=0)


def test_a_record_that_is_gone_is_seen(broker, monkeypatch):
    last = set(last_offsets(RECORDS, KEYS).tolist())
    all_but_one = key_compaction.np.array(sorted(last)[1:])
    monkeypatch.setattr(key_compaction, "_read", lambda *_: all_but_one)
    with pytest.raises(AssertionError, match="1 last records are gone"):
        key_compaction._judge(broker.address, RECORDS, KEYS, end=RECORDS)
