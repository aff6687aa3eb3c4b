"""``/metrics``."""
