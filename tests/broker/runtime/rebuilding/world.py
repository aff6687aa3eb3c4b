"""A log and tables whose catalog is lost."""

from pathlib import Path

from broker.records.batch import assign
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import Marker, marker_batch
from broker.topics.topic import Topic
from tests.jobs.world import World
from tests.support.batches import Record, make_batch

NOW_MS = 1_700_000_000_000


def transactional(
    world: World, topic: Topic, base: int, producer: int, epoch: int = 0
) -> None:
    """A record at ``base`` of partition 0, of a producer's transaction."""
    batch = make_batch(
        [Record(b"k", b"open")], base,
        producer=(producer, epoch, 0), attributes=TRANSACTIONAL_BIT,
    )  # fmt: skip
    world.append(topic, batch)


def marker(
    world: World, topic: Topic, base: int, producer: int, *, commit: bool
) -> None:
    batch = marker_batch(producer, 0, Marker(commit), NOW_MS)
    assign(batch, base)
    world.append(topic, batch)


def lose_catalog(data_dir: Path) -> None:
    """As a disk does, or a hand."""
    for path in data_dir.glob("catalog.db*"):
        path.unlink()
