"""What a consumer group is. Pure."""
