"""``/v3/clusters/{cluster_id}/acls``."""
