"""A start: what recovery keeps is made durable, and nothing is left half open.

The problem. What a start reads need not be on the disk. When only the process died, the
page cache shows what was written and never synced; when a sync had failed before, it
shows what the disk refused, in pages that the kernel calls clean, so that a later sync
succeeds without writing them. But from now on consumers see all that is kept here.

The idea. Only the last segment can hold anything of the kind, since each segment is
sealed, and that synced, before the next is begun. So what it holds behind the place up
to which it was synced for sure is written once more, byte for byte, and so are its
footer and its seal: then the pages are dirty, and one sync writes all of them. Which
place that is the last entry knows. The committed position does not: in the relaxed mode
it says how far was written. What was *refused* is not among it: the committed position
says where that begins, and recovery has cut it off.

A segment is sealed, never continued: behind its end may lie entries of an unfinished
write, right in every respect but that nobody was promised them; the next entries of the
same generation could make them look like a part of the log. For the same reason one
sequence is left out: it may have been begun and lost.

The price. Mostly one or two groups are written again; the whole last segment after a
power cut that took the committed position with it.
"""

import errno
from dataclasses import replace
from pathlib import Path

from broker.storage import readable
from broker.storage.active_segment import write_seal
from broker.storage.columns import rows_of
from broker.storage.committed_position import (
    CommittedPositionFile,
    read_committed_position,
)
from broker.storage.entry import ENTRY_HEADER_BYTES, HEAD
from broker.storage.files import Files
from broker.storage.judgement import FoundSegment
from broker.storage.layout import HEADER_BLOCK_BYTES, read_seal
from broker.storage.manifest import write_manifest
from broker.storage.objects import LocalObjects
from broker.storage.recovery import Found
from broker.storage.segment import (
    STEP,
    DamagedExtent,
    SealedSegment,
    Slot,
    even_from,
)


def begin_anew(
    files: Files, directory: Path, found: Found, now_ms: int
) -> list[SealedSegment]:
    """Seal what is open, durably, and write a manifest; returns what is kept.

    Raises OSError.
    """
    _remove_unlisted(files, directory, found)
    last = max((n for n, s in found.segments.items() if not s.carried), default=0)
    damaged: dict[int, DamagedExtent] = {}
    for sequence, segment in list(found.segments.items()):
        if not segment.intact:  # no seal is written to it, nor anything else but this
            if not segment.is_sealed:
                segment.sealed_at_ms = now_ms
                is_new = sequence not in found.manifest.damaged
                if sequence == last and segment.is_end_known and is_new:
                    _write_damaged_again(files, found, segment)
                if segment.is_end_known:  # else later starts see its successor, too
                    damaged[sequence] = DamagedExtent(segment.end, segment.holes)
            elif sequence == last:
                _write_damaged_seal_again(files, segment)
        elif segment.empty:
            _wipe_refused(files, found, segment)
            del found.segments[sequence]
            found.free.append(segment.slot)
        elif not segment.is_sealed or sequence == last:
            _seal_durably(files, directory, found, segment, now_ms)
    _write_manifest(files, directory, found, damaged)
    return [segment.sealed() for segment in found.segments.values()]


def _write_manifest(
    files: Files, directory: Path, found: Found, damaged: dict[int, DamagedExtent]
) -> None:
    """And a committed position where that is lost: it is what tells other processes
    that a segment has a successor."""
    found.highest_sequence = even_from(found.highest_sequence) + STEP
    if found.is_cut:  # the number that is left out stands for it until a checkpoint
        found.missing |= {found.highest_sequence}
        found.unexplained |= {found.highest_sequence}
    live = frozenset(found.segments) | found.missing  # until a checkpoint knows of it
    found.manifest = replace(
        found.manifest.with_live(live, found.highest_sequence),
        spaced_from=min(found.manifest.spaced_from, found.highest_sequence),
        damaged=damaged,
        unexplained=found.unexplained,
    )
    write_manifest(LocalObjects(files, directory), found.manifest)
    if found.segments and read_committed_position(files, directory) is None:
        _note(files, directory, found.highest_sequence, 0)


def _remove_unlisted(files: Files, directory: Path, found: Found) -> None:
    """A carried segment that was not finished is nobody's, and its number is free."""
    for slot in found.unlisted:
        files.close(slot.file)
        files.unlink(slot.path)
    if found.unlisted:
        files.fsync_dir(directory)
        found.unlisted.clear()


def _write_damaged_again(files: Files, found: Found, segment: FoundSegment) -> None:
    """As `_seal_durably`, of a damaged segment that gets no seal; the start that finds
    it does so. What the disk refuses stays as it is: it is damaged, and the manifest
    knows its end."""
    slot = segment.slot
    try:
        if segment.scanned:
            start = max(_synced_end(files, found, segment), HEADER_BLOCK_BYTES)
            _write_again(files, slot, start, segment.end)
        _wipe_refused(files, found, segment)
        files.fdatasync(slot.file)
    except OSError as error:
        if error.errno != errno.EIO:
            raise


def _write_damaged_seal_again(files: Files, segment: FoundSegment) -> None:
    """As `_write_damaged_again`, of one that has a seal; all of it, since what its last
    entry says of a sync may be what is damaged."""
    try:
        _write_again(files, segment.slot, 0, segment.end)
        _write_footer_again(files, segment)
        files.fdatasync(segment.slot.file)
    except OSError as error:
        if error.errno != errno.EIO:
            raise


def _wipe_refused(files: Files, found: Found, segment: FoundSegment) -> None:
    """What was refused behind the end of a damaged segment, or was all of one, is no
    entry any more, also where the manifest, which knows that, is lost: no seal says
    where that end is, and the committed position soon is another segment's."""
    noted, slot = found.committed_position, segment.slot
    if noted is None or not noted.final or noted.sequence != segment.sequence:
        return
    if segment.end + ENTRY_HEADER_BYTES <= slot.size:
        files.pwritev(slot.file, [bytes(ENTRY_HEADER_BYTES)], segment.end)


def _seal_durably(
    files: Files, directory: Path, found: Found, segment: FoundSegment, now_ms: int
) -> None:
    """All of the segment would survive a power cut when this returns."""
    slot = segment.slot
    synced = _synced_end(files, found, segment)
    _write_again(files, slot, 0, HEADER_BLOCK_BYTES)
    _write_again(files, slot, max(synced, HEADER_BLOCK_BYTES), segment.end)
    if segment.is_sealed:
        _write_footer_again(files, segment)
        files.fdatasync(slot.file)
    else:
        write_seal(files, slot, segment.sequence, segment.end, segment.scanned, now_ms)
        segment.sealed_at_ms = now_ms
    # A committed position that says that the segment ends there stays.
    noted = found.committed_position
    if noted is None or noted.durable_end(segment.sequence) < segment.end:
        _note(files, directory, segment.sequence, segment.end)


def _note(files: Files, directory: Path, sequence: int, end: int) -> None:
    note = CommittedPositionFile(files, directory)
    note.write(sequence, end)
    note.close()


def _synced_end(files: Files, found: Found, segment: FoundSegment) -> int:
    """Up to where the segment would survive a power cut for sure; 0 if unknown."""
    rows = rows_of(segment.scanned or _footer(files, segment))
    if not len(rows):
        return 0
    head_at = int(rows["position"][-1]) - ENTRY_HEADER_BYTES
    head = readable.read(files, segment.slot.file, HEAD.size, head_at)
    return min(_noted_end(found, segment), int(HEAD.unpack(head)[2]))


def _noted_end(found: Found, segment: FoundSegment) -> int:
    """The end of the segment as the committed position has it; 0 if it has none."""
    noted = found.committed_position
    return 0 if noted is None else noted.end(segment.sequence)


def _footer(files: Files, segment: FoundSegment) -> bytes:
    """The footer of a sealed segment; recovery has checked it."""
    block = files.pread(segment.slot.file, HEADER_BLOCK_BYTES, 0)
    seal = read_seal(block, segment.sequence)
    if seal is None:
        return b""
    return files.pread(segment.slot.file, seal.footer_bytes, seal.footer_position)


def _write_footer_again(files: Files, segment: FoundSegment) -> None:
    block = files.pread(segment.slot.file, HEADER_BLOCK_BYTES, 0)
    seal = read_seal(block, segment.sequence)
    assert seal is not None, "recovery has read it"
    start = seal.footer_position
    _write_again(files, segment.slot, start, start + seal.footer_bytes)


def _write_again(files: Files, slot: Slot, start: int, end: int) -> None:
    """Make these bytes ones that the next sync writes, whatever was done before.

    What cannot be read is no page that was written and not synced: it stays as it is.
    """
    for position, piece in readable.pieces(files, slot.file, start, end):
        files.pwritev(slot.file, [piece], position)
