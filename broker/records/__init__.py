"""Record batches: bytes, compression, columns. Pure."""
