"""What a transaction is. Pure."""
