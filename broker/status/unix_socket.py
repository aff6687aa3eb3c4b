"""Where broker and compactor answer the admin plane: Unix sockets in ``DATA/run``."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAME: Final = "broker.sock"
OF_COMPACTOR: Final = "compactor.sock"


@contextlib.contextmanager
def short_path(directory: Path, name: str = NAME) -> Iterator[str]:
    """A socket's path, in a form that fits: one may have 107 bytes at most."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        through = f"/proc/self/fd/{handle}"
        place = through if os.path.exists(through) else str(directory)
        yield f"{place}/{name}"
    finally:
        os.close(handle)
