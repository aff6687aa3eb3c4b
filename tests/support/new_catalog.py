"""The catalog of a broker that never started, made once in a process and copied.

To create its tables is half of what a start takes where nothing else is there, and
hundreds of tests start one. What creating does is held by ``broker/catalog``'s own.
"""

import tempfile
from functools import cache
from pathlib import Path

from broker.catalog.catalog import Catalog

NAME = "catalog.db"


def lay_catalog(data_dir: Path) -> Path:
    """The catalog in ``data_dir``: a new one, where there was none; its path."""
    path = data_dir / NAME
    if not path.exists():
        path.write_bytes(_empty())
    return path


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, NAME)
        Catalog.open(path).close()
        return path.read_bytes()
