"""``/v1/tables/{topic}/commits``."""
