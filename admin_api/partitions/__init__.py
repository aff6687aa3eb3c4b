"""``/v3/clusters/{cluster_id}/topics/{topic_name}/partitions`` and below."""
