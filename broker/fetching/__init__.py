"""What a fetch session is, without connections: its partitions, epochs, and limits."""
