"""Topics and groups in kafka_exporter's names."""

import asyncio
from types import SimpleNamespace

from prometheus_client.parser import text_string_to_metric_families

from admin_api.internal import Internal
from admin_api.kafka import Watermarks
from admin_api.metrics import exporter
from admin_api.metrics.exporter import Exporter, Figures, families
from tests.support.clock import ManualClock
from tests.support.confluent import produce_all
from tests.support.odd_groups import FOREIGN, odd_groups
from tests.support.patience import IDLE_S, Patience


def samples(found):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families(found)
        for sample in family.samples
    }


def test_a_group_is_behind_where_it_committed_and_a_topic_is_there():
    partition = SimpleNamespace(leader=1, replicas=[1], isrs=[1])
    found = samples(
        Figures(
            nodes=(SimpleNamespace(id=1, host="h", port=9),),
            partitions={("t", 0): partition, ("t", 1): partition},
            marks={("t", 0): Watermarks(2, 10, 12)},
            committed={"g": {("t", 0): 4, ("gone", 0): 5}},
            members={"g": 3},
            left_out=7,
        )
    )
    assert found["kafka_brokers",] == 1
    assert found["kafka_broker_info", "1", "h:9"] == 1
    assert found["kafka_topic_partitions", "t"] == 2
    assert found["kafka_topic_partition_current_offset", "t", "0"] == 12
    assert found["kafka_topic_partition_oldest_offset", "t", "0"] == 2
    assert ("kafka_topic_partition_oldest_offset", "t", "1") not in found
    assert found["kafka_topic_partition_under_replicated_partition", "t", "1"] == 0
    assert found["kafka_consumergroup_lag", "g", "t", "0"] == 6
    assert found["kafka_consumergroup_lag_sum", "g", "t"] == 6
    assert found["kafka_consumergroup_members", "g"] == 3
    assert ("kafka_consumergroup_lag", "g", "gone", "0") not in found
    assert found["lakelog_metrics_left_out",] == 7


def exporter_of(plane):
    state = plane.app.state
    return Exporter(state.kafka, ManualClock(), state.internal, IDLE_S)


def test_bytes_of_topics_are_those_that_were_produced(plane, monkeypatch):
    plane.create("heavy")
    plane.create("idle")
    produce_all(plane.bootstrap, "heavy", [(None, b"v" * 5_000, None, 0)])
    said = asyncio.run(exporter_of(plane).figures())
    records_in, bytes_in, bytes_out = said.traffic["heavy"]
    assert (records_in, bytes_out) == (1, 0)
    assert said.sizes["heavy", 0] == bytes_in
    assert said.sizes["idle", 0] == 0
    read = plane.get("/v1/topics/heavy/records?limit=1").json()["data"]
    assert len(read) == 1
    again = asyncio.run(exporter_of(plane).figures())
    assert again.traffic["heavy"].bytes_out >= bytes_in
    found = samples(said)
    assert 5_000 < found["lakelog_topic_bytes_in_total", "heavy"] < 6_000
    assert ("lakelog_topic_bytes_in_total", "idle") not in found
    monkeypatch.setattr(exporter, "PARTITIONS_MAX", 0)
    none = asyncio.run(exporter_of(plane).figures())
    assert (none.traffic, none.sizes) == ({}, {})


def test_without_the_internal_endpoint_all_but_the_bytes_is_shown(plane, tmp_path):
    plane.create("lonely")
    produce_all(plane.bootstrap, "lonely", [(None, b"v", None, 0)])
    kafka = plane.app.state.kafka
    without = Exporter(kafka, ManualClock(), Internal(tmp_path), IDLE_S)
    found = asyncio.run(without.figures())
    assert (found.traffic, found.sizes) == ({}, {})
    assert ("lonely", 0) in found.partitions


def test_it_asks_no_more_often_than_it_says_and_for_no_more(plane, monkeypatch):
    plane.create("exported", 3)
    produce_all(plane.bootstrap, "exported", [(None, b"v", None, 0)])
    clock = ManualClock()
    monkeypatch.setattr(exporter, "PARTITIONS_MAX", 2)
    state = plane.app.state
    asking = Exporter(state.kafka, clock, state.internal, IDLE_S)
    first = asyncio.run(asking.figures())
    assert len(first.partitions) == 2
    assert first.left_out >= 1
    assert asyncio.run(asking.figures()) is first
    clock.advance(exporter.FRESH_MS)
    assert asyncio.run(asking.figures()) is not first


class Slow:
    """A broker that answers nothing before it is let."""

    def __init__(self, kafka):
        self._kafka, self.free, self.asked = kafka, asyncio.Event(), 0

    async def cluster(self, *more):
        self.asked += 1
        await self.free.wait()
        return await self._kafka.cluster(*more)

    def __getattr__(self, name):
        return getattr(self._kafka, name)


def test_a_slow_broker_holds_no_scrape_up_and_is_asked_once(plane):
    async def story():
        slow, clock = Slow(plane.app.state.kafka), ManualClock()
        asking = Exporter(slow, clock, plane.app.state.internal, wait_s=0.01)
        assert [await asking.figures() for _ in range(3)] == [None] * 3
        clock.advance(5_000)
        slow.free.set()
        patience = Patience()
        while (first := await asking.figures()) is None:
            assert patience.lasts()
        assert (slow.asked, asking.age_s) == (1, 5)
        slow.free.clear()
        clock.advance(44_999)
        assert await asking.figures() is first
        assert slow.asked == 1  # it had taken five seconds
        clock.advance(1)
        assert await asking.figures() is first
        assert (slow.asked, asking.age_s) == (2, 50)
        slow.free.set()
        while await asking.figures() is first:
            assert patience.lasts()

    asyncio.run(story())


def reset(plane, group, topic):
    body = {"to": "LATEST", "topics": [{"topic_name": topic}], "dry_run": False}
    assert plane.post(f"/v1/groups/{group}:reset-offsets", body).is_success


def test_a_group_is_shown_whole_or_counted_as_left_out(plane, monkeypatch):
    plane.create("narrow", 1)
    plane.create("broad", 5)
    reset(plane, "a-large-one", "broad")
    reset(plane, "small", "narrow")
    asking = exporter_of(plane)
    monkeypatch.setattr(exporter, "OFFSETS_MAX", 4)
    found = asyncio.run(asking.figures())
    assert "a-large-one" not in found.committed
    assert found.committed["small"] == {("narrow", 0): 0}
    assert found.members.keys() >= {"a-large-one", "small"}
    assert found.left_out == 1


def test_series_of_topics_can_be_switched_off(plane):
    plane.create("seen")

    def names(path):
        found = text_string_to_metric_families(plane.get(path).text)
        return {family.name for family in found}

    assert "kafka_topic_partitions" in names("/metrics")
    without = names("/metrics?per_topic=false")
    assert "lakelog_broker_up" in without
    assert not [name for name in without if name.startswith("kafka_topic")]
    assert not [name for name in without if name.startswith("kafka_consumergroup")]


def test_a_group_that_cannot_be_asked_for_hides_no_other(plane):
    plane.create("oddly-read")
    produce_all(plane.bootstrap, "oddly-read", [(None, b"v", None, 0)] * 3)
    asking = exporter_of(plane)
    before = asyncio.run(asking.figures()).left_out
    with odd_groups(plane.bootstrap, "oddly-read"):
        found = asyncio.run(exporter_of(plane).figures())
        assert plane.get("/metrics").status_code == 200
    shown = samples(found)
    for group in ("sound", "twice", FOREIGN):
        assert shown["kafka_consumergroup_lag", group, "oddly-read", "0"] == 3
    assert shown["kafka_consumergroup_members", "sound"] == 0
    assert ("kafka_consumergroup_members", FOREIGN) not in shown
    assert shown["kafka_topic_partition_current_offset", "oddly-read", "0"] == 3
    assert found.left_out == before + 2  # that without a name, and the foreign one
