"""``/v1/groups/{group}/lag/history``."""
