"""Of each key the last record stays: key compaction, as Kafka's log cleaner does it."""
