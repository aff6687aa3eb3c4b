"""What a partition's log is, without a disk: offsets, producers, index."""
