"""Where the pure machines meet the disk, the clock and each other."""
