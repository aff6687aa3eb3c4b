"""What a transaction is, as its coordinator sees it. Pure."""
