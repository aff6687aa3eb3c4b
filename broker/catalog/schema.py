"""The tables of the catalog.

Topics are never deleted from their number's point of view: ``sqlite_autoincrement``
keeps a number from being given twice even after its row is gone, because segments and
committed offsets refer to it. A name is unique only among the topics that are alive.

Changing a table: change it here, raise ``VERSION`` and add the step that turns the last
version into the new one (``migrations.py``).
"""

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

VERSION: Final = 5

metadata: Final = MetaData()

about = Table(
    "about",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
    comment="schema_version, cluster_id, topic_changes",
)

topics = Table(
    "topics",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", LargeBinary(16), nullable=False, unique=True),
    Column("name", String(249), nullable=False),
    Column("partitions", Integer, nullable=False),
    Column("configs", JSON, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("deleted_ms", BigInteger),
    sqlite_autoincrement=True,
)
Index(
    "topics_alive_by_name",
    topics.c.name,
    unique=True,
    sqlite_where=topics.c.deleted_ms.is_(None),
    postgresql_where=topics.c.deleted_ms.is_(None),
)

log_starts = Table(
    "log_starts",
    metadata,
    Column("topic_number", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("start_offset", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

released_ends = Table(
    "released_ends",
    metadata,
    Column("topic_number", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("end_offset", BigInteger, nullable=False),
    sqlite_with_rowid=False,
    comment="what lies below was released from the log",
)

group_offsets = Table(
    "group_offsets",
    metadata,
    Column("group_id", Text, primary_key=True),
    Column("topic_number", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("committed_offset", BigInteger, nullable=False),
    Column("leader_epoch", Integer, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("committed_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False, comment="-1: the broker's rule"),
    sqlite_with_rowid=False,
)
Index("group_offsets_by_topic", group_offsets.c.topic_number)

group_metadata = Table(
    "group_metadata",
    metadata,
    Column("group_id", Text, primary_key=True),
    Column("value", Text, nullable=False, comment="broker/groups/snapshot.py"),
    sqlite_with_rowid=False,
)

pending_offsets = Table(
    "pending_offsets",
    metadata,
    Column("group_id", Text, primary_key=True),
    Column("producer_id", BigInteger, primary_key=True, autoincrement=False),
    Column("topic_number", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("committed_offset", BigInteger, nullable=False),
    Column("leader_epoch", Integer, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("committed_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
    comment="committed within a transaction that is open",
)

transactions = Table(
    "transactions",
    metadata,
    Column("transactional_id", Text, primary_key=True),
    Column("value", Text, nullable=False, comment="broker/transactions/snapshot.py"),
    sqlite_with_rowid=False,
)

dynamic_configs = Table(
    "dynamic_configs",
    metadata,
    Column("resource_type", Integer, primary_key=True, autoincrement=False),
    Column("resource_name", Text, primary_key=True),
    Column("configs", JSON, nullable=False),
    sqlite_with_rowid=False,
    comment="of brokers, groups and client metrics; a topic's are its own",
)

finalized_features = Table(
    "finalized_features",
    metadata,
    Column("name", Text, primary_key=True),
    Column("level", Integer, nullable=False),
    sqlite_with_rowid=False,
)

counters = Table(
    "counters",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("next", BigInteger, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
)

flush_requests = Table(
    "flush_requests",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("topics", JSON, comment="names; null is all of them"),
    Column("asked_ms", BigInteger, nullable=False),
    Column("done_ms", BigInteger),
    sqlite_autoincrement=True,
)
