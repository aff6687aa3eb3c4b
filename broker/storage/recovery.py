"""Recovery: what does the disk say that the log is?

Reads the manifest, then every segment that counts. A sealed one is known by its footer;
only what lies behind the checkpoint is read and verified byte by byte, and what is
there is replayed, so that whoever keeps state per partition can rebuild it.

Nothing is repaired here and nothing is deleted. A torn tail is left out of the columns
(it was never acknowledged). Damage in what was acknowledged is in ``damage``, in words
for people; the batches around it go on being served, and the damaged segment's
file is never used again.
"""

from dataclasses import dataclass, field
from pathlib import Path

from broker.ids import TopicPartition
from broker.storage.columns import (
    EntryColumns,
    Rows,
    Unordered,
    copies_of,
    group_all,
    newest_copies,
)
from broker.storage.committed_position import CommittedPosition, read_committed_position
from broker.storage.entry import location_of
from broker.storage.files import Files
from broker.storage.judgement import FoundSegment, LostPlace, SegmentJudgement
from broker.storage.layout import HEADER_BLOCK_BYTES, Identity
from broker.storage.manifest import (
    Manifest,
    ManifestDamaged,
    read_manifest,
)
from broker.storage.missing_segments import (
    missing_segments,
    runs_of,
    unexplained_numbers,
)
from broker.storage.objects import LocalObjects
from broker.storage.places import DAMAGED
from broker.storage.ranges import ranges_of
from broker.storage.replay import Replay
from broker.storage.segment import (
    FIRST,
    Slot,
    is_odd,
    slot_number,
)
from broker.storage.segment_file import SegmentFile, identity_of, named_by
from broker.storage.unnamed import find_unnamed, first_sector_is

Columns = dict[TopicPartition, EntryColumns]


@dataclass(slots=True)
class Recovery:
    """What was found.

    ``payload``: the last checkpoint's, None if there is none. ``columns``: all batches
    of live segments, per partition in order of offset. ``replay``: (topic number,
    partition, header, location) of each batch behind the checkpoint, in order of
    writing. ``torn``: what was cut at the tail and why; ``damage``: what was durable
    and is not whole any more, and ``lost`` where that was, ascending. ``lost_ends``:
    partition -> the end of the batches that a footer, or the header of an entry, names
    and that do not verify; ``unclaimed_below``: the location below which all places lie
    of which nothing says whose batches they held, or how many offsets. What
    the payload does not know of lies behind the location ``replayed_from``.
    ``last_begins``: where the last of the writer's segments does; behind its batches
    nothing was ever released, unless ``lost`` has a place there. ``has_all``: no
    segment ever went, but for what ``lost`` has places of.
    """

    payload: bytes | None = None
    replayed_from: int = 0
    columns: Columns = field(default_factory=dict)
    replay: Replay = field(default_factory=lambda: Replay([]))
    torn: str | None = None
    damage: list[str] = field(default_factory=list)
    lost: list[LostPlace] = field(default_factory=list)
    lost_ends: dict[TopicPartition, int] = field(default_factory=dict)
    unclaimed_below: int = 0
    last_begins: int = 0
    has_all: bool = False


@dataclass(slots=True)
class Found:
    """The state of the directory, from which the log goes on.

    ``unlisted``: files of carried segments that no manifest lists; they must go before
    their numbers are given again. ``missing``: numbers of segments that may have been
    lost, their files with them. ``unexplained``: those of them that may have been
    released before the manifest was lost. ``is_cut``: behind the checkpoint something
    was written that is not there; no more is known of it.
    """

    manifest: Manifest
    committed_position: CommittedPosition | None = None
    segments: dict[int, FoundSegment] = field(default_factory=dict)
    free: list[Slot] = field(default_factory=list)
    unlisted: list[Slot] = field(default_factory=list)
    missing: frozenset[int] = frozenset()
    unexplained: frozenset[int] = frozenset()
    is_cut: bool = False
    highest_sequence: int = 0
    last_number: int = -1


def recover(files: Files, directory: Path) -> tuple[Found, Recovery]:
    """Read what is there. Raises OSError; never for what the bytes say."""
    recovery = Recovery()
    committed_position = read_committed_position(files, directory)
    slots = _open_slots(files, directory)
    found = Found(_manifest(files, directory, slots, recovery), committed_position)
    found.last_number = max((slot.number for slot, _ in slots), default=-1)
    found.highest_sequence = found.manifest.known
    recovery.payload = found.manifest.payload
    checkpoint = found.manifest.sequence, found.manifest.position
    recovery.replayed_from = location_of(*checkpoint)
    for slot, identity in slots:
        _place(files, slot, identity, found, recovery)
    _find_unnamed(files, found, recovery)
    _report_missing(found, recovery)
    _read_segments(files, found, recovery)
    _report_cut(found, recovery)
    recovery.lost.sort()
    evens = (number for number in found.segments if not is_odd(number))
    recovery.last_begins = location_of(max(evens, default=0), 0)
    recovery.has_all = _has_all(found)
    return found, recovery


def _has_all(found: Found) -> bool:
    """Whether the very first segment is there, no checkpoint ever let one go, and none
    was carried, which leaves out what a table has. Of the numbers between two
    `unexplained_numbers` tells, and later starts what it told."""
    numbers = found.segments.keys()
    is_first = min(numbers, default=0) == FIRST
    return is_first and not found.manifest.sequence and not any(map(is_odd, numbers))


def _open_slots(files: Files, directory: Path) -> list[tuple[Slot, Identity | None]]:
    slots = []
    for name in sorted(files.listdir(directory)):
        number = slot_number(name)
        if number is None:
            continue
        path = directory / name
        file = files.open(path)
        slot = Slot(number, path, file, files.size(file))
        slots.append((slot, identity_of(files, file)))
    return slots


def _manifest(
    files: Files,
    directory: Path,
    slots: list[tuple[Slot, Identity | None]],
    recovery: Recovery,
) -> Manifest:
    try:
        manifest = read_manifest(LocalObjects(files, directory))
    except ManifestDamaged as error:
        aside = directory / "checkpoint.damaged"
        files.rename(directory / "checkpoint", aside)
        recovery.damage.append(f"{error}; put aside as {aside.name}, replaying all")
        return Manifest()
    if manifest is None and any(identity is not None for _, identity in slots):
        # It is written before the first segment is.
        recovery.damage.append("the checkpoint is missing; replaying all")
    return manifest or Manifest()


def _place(
    files: Files,
    slot: Slot,
    identity: Identity | None,
    found: Found,
    recovery: Recovery,
) -> None:
    """Does the slot hold a segment that counts, or is it free?"""
    if identity is None or not found.manifest.counts(identity.sequence):
        carried = identity and found.manifest.is_carried(identity.sequence)
        (found.unlisted if carried else found.free).append(slot)
        return
    sequence = identity.sequence
    found.highest_sequence = max(found.highest_sequence, sequence)
    carried = found.manifest.is_carried(sequence)
    segment = FoundSegment(sequence, slot, identity.created_ms, carried)
    if slot.size < identity.file_bytes:
        segment.intact = False
        recovery.damage.append(
            f"segment {sequence}: {slot.path.name} has {slot.size} bytes, "
            f"not {identity.file_bytes}"
        )
    _add(files, segment, found, recovery)


def _add(files: Files, segment: FoundSegment, found: Found, recovery: Recovery) -> None:
    """A segment is in one file. Of two one is a copy, perhaps of before it was full:
    what holds more counts. The other is free if it holds the same, else put aside."""
    sequence = segment.sequence
    known = found.segments.setdefault(sequence, segment)
    if known is segment:
        return
    kept, other = known, segment
    kept_rows, rows = _whole_entries(files, kept), _whole_entries(files, other)
    if rows == kept_rows:
        found.free.append(other.slot)
        return
    if len(rows) > len(kept_rows):
        kept, other = other, kept
    found.segments[sequence] = kept
    slot = other.slot
    aside = slot.path.with_name(f"{DAMAGED}-{sequence}-{slot.number}.log")
    files.close(slot.file)
    files.rename(slot.path, aside)
    recovery.damage.append(
        f"segment {sequence}: it is in {kept.slot.path.name} and in {slot.path.name}, "
        f"which holds less and is put aside as {aside.name}"
    )


def _whole_entries(files: Files, segment: FoundSegment) -> bytes:
    """A row for each entry that is whole, wherever it stands."""
    size = segment.slot.size
    file = SegmentFile(files, segment.slot.file, segment.sequence)
    return bytes(file.scan(size, durable_end=size).rows)


def _find_unnamed(files: Files, found: Found, recovery: Recovery) -> None:
    """Free slots that hold a segment all the same: their first sector was damaged.

    A slot that was about to be used when the power went holds none: its entries do not
    count, or nothing says that they were ever durable.
    """
    noted, named = found.committed_position, found.segments.keys()
    expected = missing_segments(found.manifest, noted, named)
    if noted is not None and found.manifest.counts(noted.sequence):
        expected |= {noted.sequence} - named  # also if it was only written
    # Of those before the last nothing else tells, if there is no manifest.
    is_lost = found.manifest == Manifest()
    last = max((*named, *expected), default=0) if is_lost else 0
    is_any_missing = bool(expected) or noted is None
    is_any_missing |= is_lost and bool(unexplained_numbers(named, noted))
    for slot in found.free.copy():
        if named_by(files, slot.file) in found.segments:
            continue  # an equal copy, which says so
        sequence, durable = find_unnamed(
            files, slot.file, found.manifest.counts, is_any_missing=is_any_missing
        )
        found.highest_sequence = max(found.highest_sequence, sequence)
        is_twin = sequence in found.segments
        if not (is_twin or durable or sequence in expected or 0 < sequence < last):
            continue
        found.free.remove(slot)
        carried = found.manifest.is_carried(sequence)
        segment = FoundSegment(sequence, slot, 0, carried, intact=False)
        recovery.damage.append(first_sector_is(sequence, named_by(files, slot.file)))
        _add(files, segment, found, recovery)


def _report_missing(found: Found, recovery: Recovery) -> None:
    """Segments that were never released and are not there. Where the manifest is lost
    any may have been released: those are places where something may be lost, and no
    damage, then and at later starts; but for the last one that was written to, of which
    nothing else tells."""
    noted, present = found.committed_position, found.segments.keys()
    begun = 0 if noted is None else noted.sequence
    missing = missing_segments(found.manifest, noted, present)
    found.highest_sequence = max(found.highest_sequence, begun, *missing)
    why, unexplained = "", found.manifest.unexplained & missing
    if found.manifest == Manifest():
        why = ", or it was released: there is no checkpoint that would tell"
        unexplained = frozenset(unexplained_numbers(present, noted) - missing)
    for run in runs_of(missing - unexplained, present):
        text = run.lack(found.manifest)
        recovery.damage.append(f"{run}: {text}{why}")
    missing |= unexplained
    for run in runs_of(missing, present):
        place = location_of(run.first, 0), location_of(run.last + 1, 0)
        recovery.lost.append(LostPlace(*place, damaged=False))
        recovery.unclaimed_below = max(recovery.unclaimed_below, place[1])
    found.missing, found.unexplained = frozenset(missing), unexplained


def _read_segments(files: Files, found: Found, recovery: Recovery) -> None:
    found_rows: list[tuple[Rows, int]] = []
    noted_rows: list[tuple[Rows, int]] = []
    judgements: dict[int, SegmentJudgement] = {}
    last = _without_successor(found)
    for sequence, segment in sorted(found.segments.items()):
        judgement = judgements[sequence] = SegmentJudgement(files, segment)
        noted = found.committed_position
        rows = judgement.rows(found.manifest, noted, is_last=sequence == last)
        noted_rows.append((rows, sequence))
        if sequence >= found.manifest.sequence:
            rows = judgement.verified(rows, _start_of_replay(found, sequence))
        found_rows.append((rows, sequence))
    columns = _in_order(found_rows)
    # Without a manifest what was released is there, too; the version before went on to
    # list all of that.
    is_listed = columns is None and found.manifest != Manifest()
    if found_rows and (is_listed or found.manifest == Manifest()):
        once = _without_copies(found, found_rows, noted_rows)
        if len(once) < len(found_rows):
            found_rows, columns = once, _in_order(once)
        if is_listed and columns is not None:
            recovery.damage.append("what was carried was listed twice: one is kept")
    for sequence in found.segments:
        _report(judgements[sequence], recovery, is_last=sequence == last)
    if columns is None:
        recovery.damage.append("offsets are in two segments: one batch of each counts")
        copies = newest_copies(found_rows)
        found_rows = [(c, n) for c, (_, n) in zip(copies, found_rows, strict=True)]
        columns = group_all(found_rows)
    recovery.columns = columns
    recovery.replay = Replay(_keep(found, found_rows), files)


def _without_successor(found: Found) -> int:
    """The number of the writer's last segment, which need not have been sealed; 0 if it
    was: one behind it was begun, and has gone, or a start sealed it."""
    last = max((n for n, s in found.segments.items() if not s.carried), default=0)
    noted = found.committed_position
    begun = max(found.manifest.known, 0 if noted is None else noted.sequence)
    return last if last >= begun else 0


def _keep(
    found: Found, found_rows: list[tuple[Rows, int]]
) -> list[tuple[int, Slot, Rows]]:
    """Note what each segment holds; returns what lies behind the checkpoint."""
    replay: list[tuple[int, Slot, Rows]] = []
    for rows, sequence in found_rows:
        segment = found.segments[sequence]
        segment.ranges, segment.batches = ranges_of(rows), len(rows)
        if sequence >= found.manifest.sequence:
            start = _start_of_replay(found, sequence)
            behind = rows[rows["position"] >= start]
            if len(behind):  # the file of an empty one may be removed as a spare
                replay.append((sequence, segment.slot, behind))
    return replay


def _report(judgement: SegmentJudgement, recovery: Recovery, *, is_last: bool) -> None:
    """Add what was found of a segment that counts."""
    recovery.damage += judgement.damage
    recovery.lost += judgement.lost
    recovery.unclaimed_below = max(recovery.unclaimed_below, judgement.unclaimed_below)
    for key, (_, end) in judgement.lost_ranges.items():
        recovery.lost_ends[key] = max(recovery.lost_ends.get(key, 0), end)
    if is_last:
        recovery.torn = judgement.torn


def _report_cut(found: Found, recovery: Recovery) -> None:
    """What the committed position says was written, and is not there. A power cut may
    take it, and so it is no damage; but others may have synced it, and tables have it.
    """
    noted = found.committed_position
    if noted is None or noted.synced or found.manifest == Manifest():
        return
    segment = found.segments.get(noted.sequence)
    end = HEADER_BLOCK_BYTES if segment is None else segment.end
    if end < noted.position and found.manifest.counts(noted.sequence):
        text = f"segment {noted.sequence}: written up to byte {noted.position}, and "
        text += "its file is missing" if segment is None else f"there up to {end}"
        recovery.torn = f"{recovery.torn}; {text}" if recovery.torn else text
        below = location_of(noted.sequence + 1, 0)
        recovery.unclaimed_below = max(recovery.unclaimed_below, below)
        found.is_cut = recovery.payload is not None


def _in_order(found_rows: list[tuple[Rows, int]]) -> Columns | None:
    """All batches per partition; None if offsets are in two segments."""
    try:
        return group_all(found_rows, checked=True)
    except Unordered:
        return None


def _without_copies(
    found: Found,
    found_rows: list[tuple[Rows, int]],
    noted_rows: list[tuple[Rows, int]],
) -> list[tuple[Rows, int]]:
    """Of a carried segment and those that it replaced, either, where all are found.

    One that was finished has all that was needed of them. One that was not is nobody's:
    they have all of it. What a segment holds for good must not be there twice, since
    who reads segments without the broker goes by the next manifest alone. What was
    replaced may be half overwritten by now: its footer still tells what it held.
    """
    whole = {n for n, each in found.segments.items() if each.is_sealed and each.intact}
    superseded = set[int]()
    copies = noted = copies_of(found_rows)
    pairs = zip(found_rows, noted_rows, strict=True)
    if any(rows is not all_rows for (rows, _), (all_rows, _) in pairs):
        noted = copies_of(noted_rows)
    for number, (earlier, _) in noted.items():
        if number in whole:
            superseded |= earlier
    unfinished = {number for number, (_, is_all) in copies.items() if is_all} - whole
    unfinished |= {n for n, each in found.segments.items() if each.is_blank & is_odd(n)}
    for number in superseded | unfinished:
        segment = found.segments.pop(number)
        is_free = segment.intact and number in superseded
        (found.free if is_free else found.unlisted).append(segment.slot)
    return [(rows, number) for rows, number in found_rows if number in found.segments]


def _start_of_replay(found: Found, sequence: int) -> int:
    """The byte of a segment behind the checkpoint from which on it is replayed."""
    return found.manifest.position * (sequence == found.manifest.sequence)
