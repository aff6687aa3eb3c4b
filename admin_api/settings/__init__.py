"""``/v1/config``."""
