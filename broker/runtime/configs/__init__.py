"""Configurations that clients change while the broker runs."""
