"""Programs of the Python libraries, as those in other languages."""
