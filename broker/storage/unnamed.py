"""Files that hold a segment and do not say so: their first sector is damaged.

The problem. The first sector says whose generation a file holds. When it cannot be read
the entries behind it are whole, and the broker, which finds them, must not be alone in
that: what it serves the compactor has to bring into tables. Nor may it use the file
again: more than the first sector may be lost, or that sector's last write alone, so
that it names a segment that was released long ago.

The idea. Each entry names its generation, under a checksum. The newest that counts and
has a whole entry in the file is the file's. As long as all segments are there, two
pages tell that a file is a spare or names a released segment. When one is missing, no
free file is taken for one before it was read through.

The price. The whole file is read, where a segment is looked for that no file names.
"""

from collections.abc import Callable

from broker.storage import readable
from broker.storage.files import Files
from broker.storage.layout import HEADER_BLOCK_BYTES, read_identity
from broker.storage.scan import generation_of, is_durable

LOOKED_AT_BYTES = 2 * HEADER_BLOCK_BYTES


def find_unnamed(
    files: Files, file: int, counts: Callable[[int], bool], *, is_any_missing: bool
) -> tuple[int, bool]:
    """The generation of an open file that does not name it, and whether some of it was
    durable: its entries say so, or the disk cannot read its first page, which is none
    that a power cut left; 0 if it holds none that counts.

    Without ``is_any_missing`` also 0 if it looks like a spare. Raises OSError.
    """
    size = files.size(file)
    if size <= HEADER_BLOCK_BYTES or not (
        is_any_missing or _may_hold_another(files, file, min(size, LOOKED_AT_BYTES))
    ):
        return 0, False
    with readable.view(files, file, size) as seen:
        view, unread = seen
        sequence = generation_of(view, counts)
        is_torn = not unread or unread[0][0] > 0
        return sequence, sequence > 0 and (not is_torn or is_durable(view, sequence))


def _may_hold_another(files: Files, file: int, size: int) -> bool:
    """It is no new file of zeros, nor one that names a segment that was released."""
    block = readable.read(files, file, size, 0)
    if read_identity(block) is not None:
        return False
    return any(block) or not readable.is_readable(files, file, size)


def first_sector_is(sequence: int, named: int) -> str:
    """What is wrong with the file of a segment whose first sector names ``named``."""
    why = f"segment {named}'s" if named else "unreadable"
    return f"segment {sequence}: its first sector is {why}"
