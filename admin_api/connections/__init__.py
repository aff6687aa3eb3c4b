"""``/v1/connections``."""
