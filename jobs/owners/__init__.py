"""Standing back from a table while its owner changes it."""
