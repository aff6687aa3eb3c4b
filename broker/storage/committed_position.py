"""The committed position: how far the log is durable, for other processes to see.

The compactor reads the segment that the broker is writing. It must not see a batch that
is not durable yet, so after each group the broker writes 32 bytes into a small file:
the segment's sequence and the end of what was synced. The file is never synced itself.
After a kill it is exact; after a power cut it may be older than the truth or
unreadable, never ahead of it, and then recovery does not need it.

In the relaxed mode it is the end of what was *written*: that is what the compactor may
see. The file may reach the disk before the entries do. So it says which of the two it
means (``synced``), and only what was synced can be called damaged where it is missing.

Writes that the disk refused are refused for good, and that must be written down: the
page cache goes on showing them, as if they had been written. So a writer that gives up
says that the segment ends here (``final``). This is true whenever it is read, after a
restart or a power cut: nothing behind that place was ever acknowledged or will be.
"""

import contextlib
import errno
import struct
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.storage import readable
from broker.storage.files import Files

NAME: Final = "horizon"  # as the first version called it, for old directories

_FORM: Final = struct.Struct("<8sQQ")
_CHECKSUM: Final = struct.Struct("<I")
_MAGIC: Final = b"LAKEHRZ1"
_FINAL_MAGIC: Final = b"LAKEHRZF"
_WRITTEN_MAGIC: Final = b"LAKEHRZW"
_FINAL_WRITTEN_MAGIC: Final = b"LAKEHRZE"
_MAGICS: Final = {
    _MAGIC: (False, True),
    _FINAL_MAGIC: (True, True),
    _WRITTEN_MAGIC: (False, False),
    _FINAL_WRITTEN_MAGIC: (True, False),
}
"""What they say: final, synced. A program that knows the first two alone takes the
others for unreadable."""
_MAGIC_OF: Final = {says: magic for magic, says in _MAGICS.items()}
FINISH_ATTEMPTS: Final = 4
_READ_ATTEMPTS: Final = 8  # a reader may meet a write half way; the next look is fine


class CommittedPosition(NamedTuple):
    """Everything of segment ``sequence`` below ``position`` counts, and is durable.

    ``final``: and nothing behind it counts; it was refused. Without ``synced`` it is
    written, and a power cut may have taken some of it.
    """

    sequence: int
    position: int
    final: bool = False
    synced: bool = True

    def end(self, sequence: int) -> int:
        """The end of what counts of a segment; 0 if it is not told."""
        return self.position if sequence == self.sequence else 0

    def durable_end(self, sequence: int) -> int:
        """The end of what is known to be durable in a segment; 0 if nothing is."""
        return self.end(sequence) if self.synced else 0


class CommittedPositionFile:
    """The writer's end; one thread writes."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._file = _open(files, directory / NAME)

    def write(self, sequence: int, position: int, *, synced: bool = True) -> None:
        """Everything of the segment below ``position`` is durable; without ``synced``:
        written. Raises OSError."""
        self._write(CommittedPosition(sequence, position, synced=synced))

    def finish(self, sequence: int, position: int, *, synced: bool = True) -> None:
        """The segment ends at ``position``, whatever may be found behind it.

        The disk has failed already, and may do so here, too: it is tried again, and
        whether it could be noted at last is not reported.
        """
        for _ in range(FINISH_ATTEMPTS):
            with contextlib.suppress(OSError):
                self._write(CommittedPosition(sequence, position, True, synced))
                return

    @property
    def file(self) -> int:
        """The descriptor, for who writes the same record by other means."""
        return self._file

    def close(self) -> None:
        self._files.close(self._file)

    def _write(self, noted: CommittedPosition) -> None:
        magic = _MAGIC_OF[noted.final, noted.synced]
        record = _FORM.pack(magic, noted.sequence, noted.position)
        self._files.pwritev(self._file, [record + _CHECKSUM.pack(crc32c(record))], 0)


def _open(files: Files, path: Path) -> int:
    """The file for writing, made anew if it is missing or cannot be read: then it
    cannot be written either, as the rest of its page is read first."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return files.create(path)
    try:
        files.pread(file, files.size(file), 0)
    except OSError as error:
        files.close(file)
        if error.errno != errno.EIO:
            raise
        return files.create(path)
    return file


def read_committed_position(files: Files, directory: Path) -> CommittedPosition | None:
    """Return the position; None if there is none, or none that verifies."""
    try:
        file = files.open_read(directory / NAME)
    except FileNotFoundError:
        return None
    try:
        for _ in range(_READ_ATTEMPTS):
            size = _FORM.size + _CHECKSUM.size
            found = _parse(readable.read(files, file, size, 0))
            if found is not None:
                return found
        return None
    finally:
        files.close(file)


def _parse(data: bytes) -> CommittedPosition | None:
    if len(data) < _FORM.size + _CHECKSUM.size:
        return None
    record, checksum = data[: _FORM.size], data[_FORM.size :]
    if _CHECKSUM.pack(crc32c(record)) != checksum:
        return None
    magic, sequence, position = _FORM.unpack(record)
    if magic not in _MAGICS:
        return None
    return CommittedPosition(sequence, position, *_MAGICS[magic])
