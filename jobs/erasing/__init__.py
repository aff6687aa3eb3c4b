"""Erasure: what somebody asked to be forgotten, taken out of everything kept."""
