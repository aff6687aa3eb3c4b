"""``/v1/tables/{topic}:compact`` and ``/v1/operations``."""
