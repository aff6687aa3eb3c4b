"""``/v3/clusters/{cluster_id}/consumer-groups`` and below."""
