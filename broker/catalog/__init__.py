"""The small relational store of what is not records."""
