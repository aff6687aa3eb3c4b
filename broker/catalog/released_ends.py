"""Where what was released from the log ends, for each partition.

Records that were released are in a table alone. Should that table not be there at a
start that has lost the log's checkpoint, nothing but this tells that they were ever
there; so it is written before the segments go. It never goes back.
"""

from collections.abc import Mapping

from sqlalchemy import Connection, select
from sqlalchemy import delete as delete_from

from broker.catalog.schema import released_ends
from broker.catalog.upserts import upsert
from broker.ids import TopicNumber, TopicPartition


def raise_to(connection: Connection, ends: Mapping[TopicPartition, int]) -> None:
    """Partition -> the first offset behind what was released; where a higher one is
    known that stays."""
    upsert(
        connection,
        released_ends,
        (
            {"topic_number": number, "partition": partition, "end_offset": end}
            for (number, partition), end in ends.items()
        ),
        if_greater=released_ends.c.end_offset,
    )


def load(connection: Connection) -> dict[TopicPartition, int]:
    """Those of all partitions of which anything was released."""
    rows = connection.execute(select(released_ends))
    return {(row[0], row[1]): row[2] for row in rows}


def forget(connection: Connection, number: TopicNumber) -> None:
    """Nothing of a topic is left."""
    connection.execute(
        delete_from(released_ends).where(released_ends.c.topic_number == number)
    )
