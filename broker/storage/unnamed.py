"""Files that hold a segment and do not say so: their first sector is damaged.

The problem. The first sector says whose generation a file holds. When it cannot be read
the entries behind it are whole, and the broker, which finds them, must not be alone in
that: what it serves the compactor has to bring into tables.

The idea. Each entry names its generation, under a checksum. The newest that counts and
has a whole entry in the file is the file's.

The price. The whole file is read, where a segment is looked for that no file names.
"""

from collections.abc import Callable

from broker.storage import readable
from broker.storage.files import Files
from broker.storage.layout import HEADER_BLOCK_BYTES, read_identity
from broker.storage.scan import generation_of, is_durable


def find_unnamed(
    files: Files, file: int, counts: Callable[[int], bool]
) -> tuple[int, bool]:
    """The generation of an open file that does not name it, and whether some of it was
    durable: its entries say so, or the disk cannot read its first page, which is none
    that a power cut left; 0 if it holds none that counts, or names one.

    Raises OSError.
    """
    size = files.size(file)
    block = readable.read(files, file, 2 * HEADER_BLOCK_BYTES, 0)
    # A new file of zeros, or one whose identity is of a segment that was released.
    if size <= HEADER_BLOCK_BYTES or read_identity(block) or not any(block):
        return 0, False
    with readable.view(files, file, size) as seen:
        view, unread = seen
        sequence = generation_of(view, counts)
        is_torn = not unread or unread[0][0] > 0
        return sequence, sequence > 0 and (not is_torn or is_durable(view, sequence))
