"""Tables say what their topics are: early, and as it changes."""

import os
from dataclasses import replace

import pytest
import structlog.testing

from broker.catalog import topics as catalog_topics
from jobs.describe import MADE_AT_ONCE, Describer, facts_of
from jobs.tables import Tables
from lakehouse.errors import CommitRefused
from lakehouse.log import delta_log, describe
from lakehouse.topic_facts import facts_of as said_by
from lakehouse.topic_facts import log_starts_of
from tests.jobs.world import World, later, start_at
from tests.support.batches import Record


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


def said(world, topic):
    snapshot = delta_log.load(str(world.path(topic)))
    starts = log_starts_of(snapshot.transactions, topic.id.hex())
    return said_by(snapshot.configuration), starts


def test_a_topic_has_its_table_before_its_records_are_worth_a_round(world):
    topic = world.topic("t", 3, {"retention.ms": "60000"})
    world.produce(topic, [Record(b"k", b"v")])
    world.compactor().step()
    assert world.rows(topic) == []
    assert said(world, topic) == (facts_of(topic), {})


def test_a_topic_without_records_has_none(world):
    topic = world.topic("t")
    world.compactor().step()
    assert not world.path(topic).exists()


def test_of_many_new_topics_some_get_their_tables_in_each_step(world):
    topics = [world.topic(f"t{n}") for n in range(MADE_AT_ONCE + 2)]
    for topic in topics:
        world.produce(topic, [Record(b"k", b"v")])
    compactor = world.compactor()
    counts = []
    for _ in range(3):
        compactor.step()
        counts.append(sum(world.path(topic).exists() for topic in topics))
    assert counts == [MADE_AT_ONCE, MADE_AT_ONCE + 2, MADE_AT_ONCE + 2]


def test_what_changes_is_said_in_the_next_pass(world):
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    changed = replace(topic, partitions=4, configs={"retention.ms": "7"})

    def alter(connection):
        catalog_topics.add_partitions(connection, topic.number, 4)
        catalog_topics.alter_configs(connection, topic.number, changed.configs)

    world.catalog.change(alter)
    start_at(world, topic, 3)
    later(world, compactor)
    assert said(world, topic) == (facts_of(changed), {0: 3})
    version = delta_log.load(str(world.path(topic))).version
    later(world, compactor)
    assert delta_log.load(str(world.path(topic))).version == version
    world.produce(topic, [Record(b"k", b"v")])
    world.flush(compactor)
    assert len(world.rows(topic)) == 11


def test_a_table_that_refuses_is_asked_again_when_it_moved(world, monkeypatch):
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")])
    world.flush(compactor)
    tables, describer, tries = Tables(str(world.data_dir / "tables")), Describer(), []
    [table] = tables.present([replace(topic, partitions=2)])

    def refuse(*args, **more):
        tries.append(args)
        raise CommitRefused("no")

    with monkeypatch.context() as patch, structlog.testing.capture_logs() as lines:
        patch.setattr("jobs.describe.describe_topic", refuse)
        for _ in range(2):
            assert not describer.describe(table, {}, 1)
    assert [line["why"] for line in lines] == ["no"]
    world.produce(topic, [Record(b"k", b"v")])
    world.flush(compactor)
    table.follow()
    assert describer.describe(table, {}, 1)
    describer.keep([])
    assert not describer.describe(table, {}, 1)
    assert describe.differing(table.snapshot, facts_of(table.topic), {}) is None


def test_a_table_that_is_gone_is_not_made_anew_over_records_that_were_in_it(world):
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 3)
    world.flush(compactor)
    world.release()
    os.rename(world.path(topic), world.data_dir / "elsewhere")
    world.produce(topic, [Record(b"k", b"v")])
    compactor = world.compactor()
    world.flush(compactor)
    assert not world.path(topic).exists()
    world.flush(compactor)
    assert "are in no segment" in compactor.status().problems[0]
