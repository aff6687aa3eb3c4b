"""The small relational store of what is not records: durable before the answer."""
