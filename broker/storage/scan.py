"""Walking a segment that has no footer: where does the log end, and is it whole?

The problem. The last segment ends somewhere: behind the last durable entry lie the
ruins of the write that a crash interrupted, then entries of earlier generations. The
ruins are to be cut, since they were acknowledged to nobody. But an entry that does
not verify may also be an *acknowledged* one that the disk has damaged; cutting there
would silently drop everything behind it.

The idea. Walk until an entry does not verify. Then look for entries of this generation
behind that place. One that says that this place was durable when it was written proves
damage: report the range, go on behind it. So does the committed position, if it lies
behind. And so does a footer that names an entry behind, where the segment has a
successor: it was synced before that was begun. Else it is the torn tail, and what may
be found in it was never acknowledged. Unless the disk cannot read it: what a power cut
tears is readable, so nobody knows whether an acknowledged entry stood there, and that
is damage, too.

The price. A microsecond or two per entry, since those that verify are gone over many at
once (`many_entries`), and one pass of CRC-32C: gigabytes a second for batches of some
kilobytes, 100 MB/s for one-record batches, of which only one segment is ever scanned.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from broker.protocol.errors import ErrorCode, KafkaError
from broker.storage.columns import pack_entry_row
from broker.storage.entry import (
    ENTRY_HEADER_BYTES,
    MAGIC_BYTES,
    MARK,
    Claim,
    Entry,
    claim_of,
    claimed_end,
    mark_of,
    position_of,
    read_entry,
    sequence_of,
)
from broker.storage.files import Files
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.many_entries import ENTRIES_AT_ONCE, run_of_entries
from broker.storage.segment import Holes

UNREADABLE: Final = "cannot be read, and may have been durable"


@dataclass(slots=True)
class Scan:
    """What a walk through one segment found; ``rows`` as in a footer."""

    rows: bytearray = field(default_factory=bytearray)
    end: int = HEADER_BLOCK_BYTES
    torn: str | None = None
    damage: list[str] = field(default_factory=list)
    holes: list[tuple[int, int]] = field(default_factory=list)
    """The damaged places as [first byte, end)."""
    claims: list[Claim] = field(default_factory=list)
    """What the headers of entries in them say that was there."""
    unclaimed_below: int = 0
    """Where the last of them ends of which these do not say all that was there."""
    synced_below: int = 0
    """What an entry behind one of them says of how far all was durable."""
    footer_at: int = 0
    """Where the footer names one of them; before that it was not looked for again."""

    def skip(self, end: int, damage: str) -> None:
        """What lies before ``end`` is a damaged place, or belongs to the last one."""
        self.damage.append(damage)
        is_next = bool(self.holes) and self.holes[-1][1] == self.end
        start = self.holes.pop()[0] if is_next else self.end
        self.holes.append((start, end))
        self.end = end


def scan(
    view: memoryview,
    generation: int,
    *,
    limit: int,
    durable_end: int = 0,
    start: int = HEADER_BLOCK_BYTES,
    holes: Holes = (),
    unread: Holes = (),
    is_complete: bool = False,
) -> Scan:
    """Every entry of ``generation`` in ``[start, limit)`` that is to be kept.

    ``durable_end``, of the committed position: below it everything was durable.
    ``holes``: damaged places that were found before, ascending; nothing in them counts.
    ``unread``: the places that zeros stand for, since the disk cannot read them;
    ascending, and apart from each other.
    ``is_complete``: it has a successor, so what a footer in it names was durable.
    """
    found = Scan(end=start)
    for first, end in holes:
        if start <= first < limit:
            walk = _Walk(view, generation, first, first, unread, False, found)
            walk.to_the_end()
            walk.skip_known(end)
    walk = _Walk(view, generation, limit, durable_end, unread, is_complete, found)
    walk.to_the_end()
    return found


def read_batch(files: Files, file: int, location: int, length: int) -> bytes:
    """One batch, read from its segment's file and verified. Blocks.

    Raises KafkaError CORRUPT_MESSAGE if it is not what was written there; OSError.
    """
    sequence, position = sequence_of(location), position_of(location)
    start = position - ENTRY_HEADER_BYTES
    data = files.pread(file, ENTRY_HEADER_BYTES + length, start)
    entry = read_entry(memoryview(data), 0, sequence, len(data), place=start)
    if isinstance(entry, str) or entry.length != length:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"segment {sequence}, byte {position}: {entry or 'no entry is there'}",
        )
    return data[ENTRY_HEADER_BYTES:]


def generation_of(view: memoryview, counts: Callable[[int], bool]) -> int:
    """The newest generation that counts and has a whole entry here; 0 if none."""
    newest = 0
    with view[HEADER_BLOCK_BYTES:] as body:
        for match in re.finditer(re.escape(MAGIC_BYTES), body):
            position = HEADER_BLOCK_BYTES + match.start()
            if position + MARK.size > len(view):
                break
            _, generation = MARK.unpack_from(view, position)
            if generation <= newest or not counts(generation):
                continue
            entry = read_entry(view, position, generation, len(view))
            newest = newest if isinstance(entry, str) else generation
    return newest


def is_durable(view: memoryview, generation: int) -> bool:
    """Whether an entry says that a first write of this generation was synced."""
    for position in _marks(view, generation, HEADER_BLOCK_BYTES, len(view)):
        entry = read_entry(view, position, generation, len(view))
        if not isinstance(entry, str) and entry.synced_below > HEADER_BLOCK_BYTES:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Walk:
    """From the end of what is ``found`` on; see `scan`."""

    view: memoryview
    generation: int
    limit: int
    durable_end: int
    unread: Holes
    is_complete: bool
    found: Scan

    def to_the_end(self) -> None:
        while self._resumes(self._why_stopped()):
            pass

    def _why_stopped(self) -> str:
        found = self.found
        self._take_runs()
        while True:
            entry = self._entry(found.end)
            if isinstance(entry, str):
                return entry
            found.rows += pack_entry_row(entry)
            found.end = entry.position + entry.length

    def _take_runs(self) -> None:
        """Go over entries that verify, many at once, as long as all of them do, and up
        to where the disk cannot read."""
        found, looked_at = self.found, ENTRIES_AT_ONCE
        at = bisect_right(self.unread, found.end, key=itemgetter(1))
        unread = self.unread[at][0] if at < len(self.unread) else self.limit
        limit = min(unread, self.limit)
        while looked_at == ENTRIES_AT_ONCE:
            rows, looked_at = run_of_entries(
                self.view, found.end, self.generation, limit
            )
            if len(rows):
                found.rows += rows.tobytes()
                found.end = int(rows["position"][-1]) + int(rows["length"][-1])
            if len(rows) < looked_at:
                break

    def _entry(self, position: int) -> Entry | str:
        """As `read_entry`; where zeros stand for some of it, they do not count, even if
        they happen to be right: nobody can read it."""
        entry = read_entry(self.view, position, self.generation, self.limit)
        if not isinstance(entry, str):
            end = entry.position + entry.length
            if self._unread_end(position, end):
                return "its page cannot be read"
        return entry

    def _resumes(self, why: str) -> bool:
        """Judge the place where the walk stopped; True if it goes on behind damage."""
        stop = self.found.end
        durable_to = self._next_proof(stop)
        if durable_to is None and self.durable_end > stop:
            durable_to = self.durable_end
        if durable_to is not None:
            self._skip(durable_to, _damaged(why))
            return True
        unread = self._unread_end(stop, self._claimed_end(stop))
        if unread:
            whole = next(self._whole(stop), None)
            resume = min(unread, self.limit) if whole is None else whole[0]
            self._skip(resume, UNREADABLE)
            return whole is not None
        if why or next(_marks(self.view, self.generation, stop, self.limit), None):
            self.found.torn = (
                f"segment {self.generation}: cut at byte {stop}, behind the last whole "
                f"write ({why or 'the beginning of the next entry is missing'})"
            )
        return False

    def skip_known(self, end: int) -> None:
        """Go on behind a place that was found damaged before."""
        stop = self.found.end
        entry = read_entry(self.view, stop, self.generation, min(end, len(self.view)))
        if self._unread_end(stop, end):
            self._skip(end, UNREADABLE)
        elif isinstance(entry, str):
            self._skip(end, _damaged(entry))
        else:
            self._skip(end, "could not be read by an earlier start")

    def _unread_end(self, start: int, end: int) -> int:
        """Where the last page ends that could not be read of [start, end); 0: none."""
        at = bisect_left(self.unread, end, key=itemgetter(0))
        last = self.unread[at - 1][1] if at else 0
        return last if last > start else 0

    def _claimed_end(self, stop: int) -> int:
        return claimed_end(self.view, stop, self.generation, self.limit)

    def _next_proof(self, stop: int) -> int | None:
        """The first entry behind ``stop``, if one proves that ``stop`` was durable."""
        first, is_proven = None, self.found.synced_below > stop
        for position, entry in self._whole(stop):
            if first is None:
                first, is_proven = position, is_proven or self._is_in_footer(entry)
            if entry.synced_below > stop:  # of later places as well, perhaps
                self.found.synced_below = entry.synced_below
            elif not is_proven and position >= self.durable_end:
                continue
            return first
        return None

    def _is_in_footer(self, entry: Entry) -> bool:
        """Whether a footer names it: then all was durable that lies before it."""
        start = max(entry.position + entry.length, self.found.footer_at)
        if not self.is_complete or start >= self.limit:
            return False
        with self.view[start : self.limit] as rest:
            match = re.search(re.escape(pack_entry_row(entry)), rest)
        self.found.footer_at = start + match.start() if match else self.limit
        return match is not None

    def _whole(self, stop: int) -> Iterator[tuple[int, Entry]]:
        """Where each entry begins that verifies, behind ``stop``, and what it says."""
        for position in _marks(self.view, self.generation, stop, self.limit):
            entry = self._entry(position)
            if not isinstance(entry, str):
                yield position, entry

    def _skip(self, end: int, what: str) -> None:
        found, claims_end, is_counted = self.found, self.found.end, True
        place = f"segment {self.generation}: bytes {found.end} to {end}"
        for claim in self._claims(found.end, end):
            found.claims.append(claim)
            claims_end = claim.next_position
            is_counted &= claim.is_counted
        if claims_end < end or not is_counted:
            found.unclaimed_below = end
        found.skip(end, f"{place} {what}")

    def _claims(self, position: int, end: int) -> Iterator[Claim]:
        while position < end:
            claim = claim_of(self.view, position, self.generation, len(self.view))
            if claim is None:
                return
            yield claim
            position = claim.next_position


def _damaged(why: str) -> str:
    return f"were durable and are damaged ({why or 'no entry is there'})"


def _marks(view: memoryview, generation: int, start: int, limit: int) -> Iterator[int]:
    pattern = re.compile(re.escape(mark_of(generation)))
    with view[start:limit] as rest:
        for match in pattern.finditer(rest):
            yield start + match.start()
