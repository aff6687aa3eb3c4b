"""Partitions at work: appends, fetches, what covers an offset, restarts."""
