"""``/v1/health``."""
