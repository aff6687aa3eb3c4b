"""``/v1/groups/{group}:reset-offsets``."""
