"""``make demo``: the whole story on real data."""
