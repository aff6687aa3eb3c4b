"""What a topic's Delta table looks like and how to find things in it."""
