"""``/v1/loggers``."""
