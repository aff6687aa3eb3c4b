"""The Delta log of a table: what stands in it, following it, committing to it."""
