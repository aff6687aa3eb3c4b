"""``/v1/tables/{topic}/versions``."""
