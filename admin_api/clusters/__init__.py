"""``/v3/clusters``."""
