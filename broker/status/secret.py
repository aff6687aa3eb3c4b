"""What the plane and the parts know alone: 256 bits of chance in a file of its owner's.

An internal endpoint at a TCP address cannot tell by a file's mode who asks. So whoever
asks there proves to have what is in ``DATA/run/internal-secret``, or in the file that a
setting names, and so does the part that answers (`proof`); neither sends it. The first
part that needs the one in the data directory makes it; no part makes the other, for it
has to be the same on two machines.
"""

import contextlib
import os
import re
import secrets
from pathlib import Path
from typing import Final

FILE: Final = "internal-secret"
BYTES_MAX: Final = 1024
_LONG_ENOUGH: Final = re.compile(r"[!-~]{32,}")


class SecretUnusable(Exception):
    """There is no secret to be asked for; the message is one sentence for people."""


def read(path: Path) -> str:
    """The secret in a file. Raises SecretUnusable; never says what it read."""
    try:
        with path.open("rb") as file:
            found = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise SecretUnusable(f"{path}: {error.strerror}") from None
    text = found.decode("latin-1").strip()
    if len(found) > BYTES_MAX or not _LONG_ENOUGH.fullmatch(text):
        raise SecretUnusable(
            f"{path} has no secret: 32 to {BYTES_MAX} visible characters on one line"
        )
    return text


def made(directory: Path) -> Path:
    """The file in ``directory``, made if it is not there yet, whole or not at all.

    Raises:
        OSError: it cannot be made.
    """
    path = directory / FILE
    if path.exists():
        return path
    # no process's number: each container of a shared volume may have the same
    new = directory / f"{FILE}.{secrets.token_hex(8)}"
    file = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(file, "w") as opened:
            opened.write(f"{secrets.token_hex(32)}\n")
        with contextlib.suppress(FileExistsError):  # another part was faster
            os.link(new, path)
    finally:
        new.unlink(missing_ok=True)
    return path
