"""A locked file that says whose a directory is, while it is the one that lies there.

The problem: a lock is held on a file, and a disk may go and another one stand in its
place, with a file of that name which somebody else has. The idea: who holds one asks,
before each thing that it does there, whether the file that is locked is the one that
lies there. The price: a look at a file each time.
"""

import os
from pathlib import Path

from broker.storage.files import Files


class HeldFile:
    """The file at ``path``, held or not. All methods block for a moment."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files, self._path = files, path
        self._lock: int | None = None

    def take(self) -> bool:
        """Lock what lies there now, and make it if nothing does; False if another
        process has it. Raises OSError."""
        self.release()
        self._lock = self._files.lock(self._path)
        return self._lock is not None

    def is_there(self) -> bool:
        """Whether it is held, and is what lies there. One that is not is released."""
        if self._lock is None:
            return False
        try:
            if os.path.samestat(os.stat(self._path), os.fstat(self._lock)):
                return True
        except OSError:
            pass
        self.release()
        return False

    def release(self) -> None:
        """Another one may have it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            self._files.close(lock)
