"""Listeners and connections: bytes in, frames out, in order."""
