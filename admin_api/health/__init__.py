"""``/livez`` and ``/readyz``."""
