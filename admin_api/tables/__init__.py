"""``/v1/tables``: the tables beside the topics."""
