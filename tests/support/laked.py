"""A data directory with a catalog and real tables, made without a broker."""

from pathlib import Path

from broker.catalog import topics
from broker.catalog.catalog import Catalog
from broker.topics.topic import Topic
from tests.support.tables import TOPIC_ID, Writer


def make_topic(
    data_dir: Path, name: str, partitions: int = 2, topic_id: str = TOPIC_ID
) -> Topic:
    """The catalog of ``data_dir`` knows the topic from now on."""
    (data_dir / "tables").mkdir(parents=True, exist_ok=True)
    with Catalog.open(data_dir / "catalog.db") as catalog:
        return catalog.change(
            lambda connection: topics.create(
                connection, name, bytes.fromhex(topic_id), partitions, {}, 1
            )
        )


def make_table(
    data_dir: Path, name: str, partitions: int = 2, topic_id: str = TOPIC_ID
) -> Writer:
    """The topic, and its table without rows."""
    make_topic(data_dir, name, partitions, topic_id)
    return Writer(str(data_dir / "tables"), name, topic_id)


def id_of(number: int) -> str:
    """A topic id of its own for each number."""
    return f"{number:032x}"
