"""Producer ids: blocks of numbers, none of which is ever given twice.

A block is durable before its first id is given away. A crash loses what is left of a
block and repeats nothing. Source: Kafka's ``ProducerIdControlManager``, KIP-730.
"""

from typing import Final

from sqlalchemy import Connection, select

from broker.catalog.schema import counters
from broker.catalog.upserts import upsert

BLOCK: Final = 1000
_NAME: Final = "producer_id"


def begin_at(connection: Connection, first: int) -> None:
    """Give no producer id below ``first`` from now on."""
    known = connection.scalar(select(counters.c.next).where(counters.c.name == _NAME))
    upsert(connection, counters, [{"name": _NAME, "next": max(first, known or 0)}])


def next_block(connection: Connection, count: int = BLOCK) -> range:
    """The next ``count`` producer ids."""
    assert count > 0
    first = connection.scalar(select(counters.c.next).where(counters.c.name == _NAME))
    first = first or 0
    upsert(connection, counters, [{"name": _NAME, "next": first + count}])
    return range(first, first + count)
