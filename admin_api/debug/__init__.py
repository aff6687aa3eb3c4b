"""``/v1/debug/bundle``."""
