"""Groups and committed offsets: the machines, their journal, producer ids."""
