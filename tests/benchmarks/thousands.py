"""A broker with a thousand topics, for requests about all of them."""

from broker.groups.offsets import Committed
from broker.runtime.services import Broker
from broker.topics.topic import Topic

EMPTY = 40_000
"""So many elements has a request whose elements are empty."""
TOPICS, PARTITIONS = 1_000, 5
NAMES = [f"topic-{n}" for n in range(TOPICS)]
EACH = range(PARTITIONS)


def known(broker: Broker) -> None:
    """A thousand topics of five partitions, a group that has read all of them."""
    topics = [
        Topic(n, n.to_bytes(16, "big"), name, PARTITIONS)
        for n, name in enumerate(NAMES, 1)
    ]
    broker.topics.load(topics)
    for topic in topics:
        broker.partitions.restore(topic, {})
    groups = broker.groups.offsets._commits.groups
    offsets = {
        (topic.number, index): Committed(5) for topic in topics for index in EACH
    }
    groups["all"] = offsets
    for n in range(TOPICS * PARTITIONS):
        groups[f"group-{n}"] = {(1, 0): Committed(5)}
