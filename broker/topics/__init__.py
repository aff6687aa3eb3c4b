"""What a topic is: its name, its configuration, its identity. Pure."""
