"""Where the broker answers the admin plane: a Unix socket in ``DATA/run``."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAME: Final = "broker.sock"


@contextlib.contextmanager
def short_path(directory: Path) -> Iterator[str]:
    """The socket's path, in a form that fits: one may have 107 bytes at most."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        through = f"/proc/self/fd/{handle}"
        place = through if os.path.exists(through) else str(directory)
        yield f"{place}/{NAME}"
    finally:
        os.close(handle)
