"""Many small files become few large ones, and files in no order become sorted."""
