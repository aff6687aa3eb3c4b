"""What the parts say of themselves in ``DATA/run/*.json``: one contract for all."""
