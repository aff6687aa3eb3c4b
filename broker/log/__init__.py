"""What a partition's log is: offsets, producers, index. Pure."""
