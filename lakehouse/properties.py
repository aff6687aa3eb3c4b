"""Table properties: those of Delta that the broker relies on, and those of our own.

The problem: a table must keep its shape whatever a session's defaults say, and must
explain itself when it is found without its catalog. The idea: everything is a property
of the table, written when it is created. Sources: Delta's table properties reference;
the reasons stand beside each.
"""

TOPIC = "lakelog.topic"
TOPIC_ID = "lakelog.topicId"
PARTITIONS = "lakelog.partitions"
TOPIC_NUMBER = "lakelog.topicNumber"
"""By which the log's segments name the topic."""
CONFIGS = "lakelog.configs"
"""The topic's own settings: a JSON object of texts."""

RANGES = "lakelog.ranges"
"""Key in ``commitInfo``: {partition: [first offset, end offset)} that it added."""
ROWS = "lakelog.rows"
"""Key in ``commitInfo``: {partition: records that the log held in that range}, fewer
than its offsets where some never were a record. Old commits do not say it."""
MERGED = "lakelog.merged"
"""Key in ``commitInfo`` of a commit that moves rows from file to file and changes none:
{partition: [files that leave, rows that they hold]}."""
CLEANED = "lakelog.cleaned"
"""Key in ``commitInfo`` of a commit that takes out rows whose keys came again:
{partition: [first offset, end offset, files that leave, rows that they hold, rows that
stay]}."""
ERASED = "lakelog.erased"
"""Key in ``commitInfo`` of a commit that takes out rows for somebody's request:
{partition: [files that leave, rows that stay of theirs, rows that were erased]}, and
under "request" what tells one request from another, and no byte of what was erased."""
LOG_START = "lakelog.logStart"
"""Key in ``commitInfo`` of a commit that only lets files go."""

DESCRIBED = "lakelog.described"
"""Key in ``commitInfo`` of a commit that says what the table's topic is now, and where
its log starts (`lakehouse.log.describe`)."""

TRANSACTIONS_EXPIRE = "delta.setTransactionRetentionDuration"
"""With it, checkpoints drop ``txn`` actions, and so the ends of partitions."""

APPEND_ONLY = "delta.appendOnly"
"""With it, no file may leave, and so no row."""

CHANGE_FEED = "delta.enableChangeDataFeed"
CHECKPOINT_INTERVAL = 100

DELTA = {
    # Both would rewrite files with rows out of offset order.
    "delta.autoOptimize.autoCompact": "false",
    "delta.autoOptimize.optimizeWrite": "false",
    # A checkpoint every ten commits costs more than the commits do.
    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
    # `partition` is a partition column: Delta refuses it here.
    "delta.dataSkippingStatsColumns": "offset,timestamp",
    # Reader version 3; many readers cannot.
    "delta.enableDeletionVectors": "false",
    # Compact encodings of offsets and timestamps when Spark rewrites a file.
    "delta.parquet.format.version": "2.12.0",
    # A table that flows has an entry each 2.5 seconds, and Spark lists all of them in
    # each query. No older version can be read than that of the oldest files either.
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


def partition_application(topic_id: str, partition: int) -> str:
    """The ``txn`` application id whose version is a partition's end offset."""
    return f"{topic_id}/{partition}"
