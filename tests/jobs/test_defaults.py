"""What holds for topics: what clients configured comes before what was started with."""

from functools import partial

from broker.catalog import dynamic_configs
from broker.settings import Settings, TopicSettings
from jobs.defaults import topic_defaults
from tests.jobs.world import World


def test_this_broker_comes_before_all_and_both_before_the_start(world: World) -> None:
    settings = Settings(
        node_id=3, topics=TopicSettings(retention_ms=1, retention_bytes=2)
    )
    for resource, configs in (
        ((4, ""), {"log.retention.ms": "10", "log.cleanup.policy": "compact"}),
        ((4, "3"), {"log.retention.ms": "20", "max.connections": "5"}),
        ((4, "4"), {"log.retention.ms": "30"}),
        ((32, "3"), {"log.retention.ms": "40"}),
    ):
        world.catalog.change(
            partial(dynamic_configs.store, resource=resource, configs=configs)
        )
    found = world.catalog.read(partial(topic_defaults, settings=settings))
    assert found["retention.ms"] == "20"
    assert found["retention.bytes"] == "2"
    assert found["cleanup.policy"] == "compact"
    assert found["message.timestamp.type"] == "CreateTime"
    assert "max.connections" not in found
