"""``/v1/topics/{topic}/records`` and ``/tail``: records, read over HTTP."""
