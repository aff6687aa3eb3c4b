"""``/v1/tables/{topic}/snippets``."""
