"""Topic names and configurations. Pure."""
