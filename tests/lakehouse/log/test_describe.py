"""A table says what its topic is, in entries that change no row and lose nothing."""

import os
from dataclasses import replace

import deltalake
import pytest

from lakehouse.errors import CommitRefused
from lakehouse.log.checkpoint_repair import prove_checkpoint
from lakehouse.log.delta_log import entry_path, load, read_entry, table_ends
from lakehouse.log.describe import describe_topic, differing
from lakehouse.log.library import checkpoint
from lakehouse.log.provenance import DESCRIBE, is_ours
from lakehouse.topic_facts import TopicFacts, facts_of, log_starts_of
from tests.support.tables import TOPIC_ID, Writer

FACTS = TopicFacts("orders", TOPIC_ID, 3, 7, {"retention.ms": "1000"})


@pytest.fixture
def writer(tmp_path):
    return Writer(str(tmp_path))


def describe(writer, facts=FACTS, starts=None, snapshot=None):
    return describe_topic(
        writer.path, facts, starts or {}, now_ms=1_000, snapshot=snapshot
    )


def state(writer):
    snapshot = load(writer.path)
    starts = log_starts_of(snapshot.transactions, TOPIC_ID)
    return facts_of(snapshot.configuration), starts, table_ends(snapshot)


def test_it_says_what_it_did_not_and_once(writer):
    writer.add(0, 0, 10)
    assert describe(writer, starts={0: 4}).version == 2
    assert state(writer) == (FACTS, {0: 4}, {0: 10})
    assert describe(writer, starts={0: 4}) is None
    assert load(writer.path).version == 2


def test_a_start_alone_changes_no_property_and_never_goes_back(writer):
    writer.add(0, 0, 10)
    describe(writer, starts={0: 4})
    describe(writer, starts={0: 6})
    assert b"metaData" not in read_entry(writer.path, 3)
    assert describe(writer, starts={0: 5}) is None
    assert state(writer)[1] == {0: 6}


def test_all_else_that_the_table_says_stays_as_it_was(writer):
    owner = deltalake.DeltaTable(writer.path)
    owner.alter.set_table_description("the orders")
    owner.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})
    before = load(writer.path).metadata
    describe(writer)
    after = load(writer.path).metadata
    added = {"lakelog.topicNumber": "7", "lakelog.partitions": "3",
             "lakelog.configs": '{"retention.ms":"1000"}'}  # fmt: skip
    assert replace(after, configuration={}) == replace(before, configuration={})
    assert dict(after.configuration) == dict(before.configuration) | added
    owner = deltalake.DeltaTable(writer.path)
    assert owner.metadata().description == "the orders"
    assert owner.metadata().name == "orders"


def test_rounds_and_checkpoints_go_on_behind_it(writer):
    writer.add(0, 0, 10)
    describe(writer, starts={0: 4})
    writer.add(0, 10, 20)
    checkpoint(writer.path, 3)
    assert prove_checkpoint(load(writer.path)) is None
    for version in range(3):
        os.unlink(entry_path(writer.path, version))
    assert state(writer) == (FACTS, {0: 4}, {0: 20})
    describe(writer, FACTS._replace(partitions=4), {0: 15, 1: 1})
    assert state(writer) == (FACTS._replace(partitions=4), {0: 15, 1: 1}, {0: 20})


def test_the_library_says_it_of_a_table_that_asks_for_more(writer):
    owner = deltalake.DeltaTable(writer.path)
    owner.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    writer.add(0, 0, 10)
    describe(writer, starts={0: 4})
    assert state(writer) == (FACTS, {0: 4}, {0: 10})
    assert is_ours(read_entry(writer.path, 3).decode())
    describe(writer, starts={0: 5})
    assert state(writer) == (FACTS, {0: 5}, {0: 10})
    assert describe(writer, starts={0: 5}) is None
    writer.add(0, 10, 20)
    assert state(writer) == (FACTS, {0: 5}, {0: 20})


def test_history_names_it(writer):
    describe(writer)
    [said] = deltalake.DeltaTable(writer.path).history(1)
    assert said["operation"] == DESCRIBE


def test_the_table_of_another_topic_is_not_described(writer):
    with pytest.raises(CommitRefused, match="belongs to topic id"):
        describe(writer, FACTS._replace(id="f" * 32))


def test_a_snapshot_that_others_left_behind_takes_them_in(writer):
    snapshot = load(writer.path)
    writer.add(0, 0, 10)
    describe(writer, snapshot=snapshot)
    assert snapshot.version == 2
    assert differing(snapshot, FACTS, {}) is None
    assert state(writer) == (FACTS, {}, {0: 10})
