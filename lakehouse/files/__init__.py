"""Data files: footers, chunks, rows, and which of them are deleted."""
