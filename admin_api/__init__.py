"""The REST plane for admins."""
