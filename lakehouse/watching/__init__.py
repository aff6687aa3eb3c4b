"""Which logs something happened in."""
