"""Where segments are, for those who read them: sealed ones, and the active one so far.

The problem. The compactor and `lakelog check` read what the broker writes, without
asking it, and Spark's workers read it once more. Where the bytes lie is nothing to any
of them: it is a directory now, and may be an object store.

The idea. `SegmentStore` is what they are given. It shows a batch only when it is
durable: the committed position says so, and where that says written (the relaxed mode)
it is synced first, and so is a sealed segment that has no successor yet. A file may
have been used again since somebody looked (the generation says so): then the plan is
old (StaleSegment), and the records are in the tables already. A task for another
process names the store by its ``address`` and the segment by its sequence, which is the
generation of its entries.

In a directory (`LocalSegmentStore`) a sealed segment is known by its footer and read
once. The active one is walked from where the last walk ended, so each look costs what
is new.

The price. Whoever opens a segment by its sequence alone looks at the first sectors of
all files, once until one has moved.
"""

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from broker.ids import TopicPartition
from broker.storage.columns import EntryColumns, Rows, rows_of
from broker.storage.committed_position import CommittedPosition, read_committed_position
from broker.storage.files import Files, PosixFiles
from broker.storage.known_segment import KnownSegment
from broker.storage.layout import (
    HEADER_BLOCK_BYTES,
    Identity,
    Seal,
)
from broker.storage.manifest import Manifest, ManifestDamaged, read_manifest
from broker.storage.missing_segments import lost_texts, missing_segments
from broker.storage.objects import LocalObjects, Objects
from broker.storage.open_segment import OpenSegment, SegmentBytes
from broker.storage.segment import (
    Holes,
    SegmentInfo,
    StaleSegment,
    slot_number,
)
from broker.storage.segment_file import SegmentFile, identity_of, named_by
from broker.storage.unnamed import find_unnamed, first_sector_is


class SegmentStore(Objects, Protocol):
    """The segments of a log, for reading; one thread uses it. Raises OSError."""

    address: str
    """What `open_store` makes a store of the same segments of, in any process."""
    damage: list[str]
    """What was durable and does not verify, in words, as it was met; and what is
    missing."""
    missing: set[int]
    """Segments behind the checkpoint that should be there and are not, as `live` saw it
    last: nothing else tells what was lost with them."""

    def live(self) -> list[SegmentInfo]:
        """The segments that count now and hold something durable, by sequence; also if
        all of that is damaged.

        Sealed ones, and behind them the active one up to its committed position: in one
        look, so that a segment that is sealed meanwhile is not missed.
        """

    def columns(self, sequence: int) -> dict[TopicPartition, EntryColumns]:
        """Where the durable batches of a segment lie, as `live` saw it last.

        Raises StaleSegment if it was not among them.
        """

    def holes(self, sequence: int) -> list[tuple[int, int]]:
        """Bytes [start, end) of a segment that were durable and hold no batch now.

        Raises StaleSegment if `live` did not see it.
        """

    def sequences(self) -> set[int]:
        """The segments that are there, whether or not they still count."""

    def forget_damaged(self) -> set[int]:
        """The segments in which damage was met: the next `live` reads them anew, since
        what could not be read may be read another time."""

    def opened(self, sequence: int) -> AbstractContextManager[SegmentBytes]:
        """A segment for reading; it need not have been seen by `live`.

        Raises StaleSegment if it is not there any more.
        """


def open_store(address: str) -> SegmentStore:
    """A store at an address (a directory); it remembers where segments are."""
    return LocalSegmentStore(PosixFiles(), Path(address))


class LocalSegmentStore(LocalObjects):
    """The segments in ``directory`` (the broker's ``wal``)."""

    def __init__(self, files: Files, directory: Path) -> None:
        super().__init__(files, directory)
        self.address = str(directory)
        self.damage: list[str] = []
        self.missing: set[int] = set()
        self._reported_missing: list[str] = []
        self._known: dict[int, KnownSegment] = {}
        self._places: dict[int, Path] = {}
        self._unnamed: dict[tuple[Path, frozenset[int]], int] = {}

    def live(self) -> list[SegmentInfo]:
        """Those that count now and hold something durable. Raises OSError, also when
        the checkpoint is missing or damaged.

        One that went during the look may have gone into another that was not listed
        yet: then all is looked at again, and so it is if such a one was listed.
        """
        while True:
            # The committed position first: a segment behind it is then seen sealed.
            committed_position = read_committed_position(self._files, self._directory)
            manifest = self._manifest()
            if committed_position is None:
                committed_position = self._last_begun(manifest)
            self._known = found = self._look_at_all(manifest, committed_position)
            after = self._manifest()
            is_gone = manifest.live - found.keys() - after.live
            if not is_gone and not any(
                map(after.is_carried, after.live - manifest.live)
            ):
                break
        self.missing = self._look_for_missing(manifest, committed_position)
        return [
            known.info() for _, known in sorted(found.items()) if known.holds_anything
        ]

    def _last_begun(self, manifest: Manifest) -> CommittedPosition:
        """What stands for a position that is lost: each segment but the last of the
        writer's has a successor, and so was sealed; also where that has gone."""
        writers = (n for n in self._find() if not manifest.is_carried(n))
        last = max(filter(manifest.counts, writers), default=0)
        return CommittedPosition(max(last, manifest.known), 0)

    def _look_for_missing(
        self, manifest: Manifest, committed_position: CommittedPosition | None
    ) -> set[int]:
        """Those that should be among what was found behind the checkpoint. A second
        look tells apart what was begun or released during the first."""
        missing = missing_segments(manifest, committed_position, self._known)
        missing = {each for each in missing if each >= manifest.sequence}
        if manifest.payload is not None:  # then it is no segment's; see `Manifest`
            missing -= manifest.unexplained
        if missing:
            missing -= self.sequences()
            missing = set(filter(self._manifest().counts, missing))
        self._report_missing(lost_texts(missing, self._known, manifest))
        return missing

    def _report_missing(self, texts: list[str]) -> None:
        """Only of those that are missing now."""
        kept = [text for text in self.damage if text not in self._reported_missing]
        self.damage, self._reported_missing = kept + texts, texts

    def _manifest(self) -> Manifest:
        """Raises OSError; where it is missing although there are segments, nobody
        knows which of them count before a broker has looked."""
        manifest = read_manifest(self)
        if manifest is None and any(self.sequences()):
            raise ManifestDamaged("the checkpoint is missing")
        return manifest or Manifest()

    def _look_at_all(
        self, manifest: Manifest, committed_position: CommittedPosition | None
    ) -> dict[int, KnownSegment]:
        """By sequence, the segments that count according to ``manifest``."""
        found: dict[int, KnownSegment] = {}
        paths, unnamed = self._paths(), frozenset[int]()
        for _ in range(2):
            for path in paths:
                known = self._look(path, manifest, committed_position, unnamed)
                if known is not None:
                    found[known.identity.sequence] = known
            missing = missing_segments(manifest, committed_position, found)
            if missing:  # not only since this look began
                missing -= self._find().keys()
                missing = set(filter(self._manifest().counts, missing))
            unnamed = frozenset(missing)
            if not unnamed:
                break
        return found

    def columns(self, sequence: int) -> dict[TopicPartition, EntryColumns]:
        """Where the durable batches of a segment lie, as `live` saw it last.

        Raises StaleSegment if it was not among them.
        """
        known = self._known.get(sequence)
        if known is None:
            raise StaleSegment(sequence)
        return known.columns(self._footer_of(known) if known.is_in_footer else None)

    def _footer_of(self, known: KnownSegment) -> Rows:
        """The rows of one that is not there any more are nobody's; one whose footer has
        become unreadable is read anew by the next `live`. Both raise StaleSegment."""
        sequence, seal = known.identity.sequence, known.seal
        assert seal is not None, "a segment without a seal has no footer"
        with self._segment(sequence) as segment:
            rows = segment.footer(seal)
            segment.check_current()
        if rows is None:
            del self._known[sequence]
            raise StaleSegment(sequence)
        return rows

    def holes(self, sequence: int) -> list[tuple[int, int]]:
        """Bytes [start, end) of a segment that were durable and hold no batch now.

        Raises StaleSegment if `live` did not see it.
        """
        known = self._known.get(sequence)
        if known is None:
            raise StaleSegment(sequence)
        return list(known.holes)

    def forget_damaged(self) -> set[int]:
        """As `SegmentStore.forget_damaged`."""
        known = self._known.items()
        damaged = {n for n, each in known if each.is_damaged or each.is_unnamed}
        for number in damaged:
            del self._known[number]
        self.damage = list(self._reported_missing)
        return damaged

    def sequences(self) -> set[int]:
        """What the files hold, whether or not it still counts. Raises OSError."""
        unnamed = {number for number, each in self._known.items() if each.is_unnamed}
        return set(self._find()) | unnamed

    @contextmanager
    def opened(self, sequence: int) -> Iterator[SegmentBytes]:
        """A segment. Raises StaleSegment, OSError."""
        with self._segment(sequence) as segment:
            yield OpenSegment(segment)

    @contextmanager
    def _segment(self, sequence: int) -> Iterator[SegmentFile]:
        try:
            place, named = self._place(sequence)
            file = self._files.open_read(place)
        except FileNotFoundError:
            raise StaleSegment(sequence) from None
        try:
            segment = SegmentFile(self._files, file, sequence, named)
            segment.check_current()
            yield segment
        finally:
            self._files.close(file)

    def _place(self, sequence: int) -> tuple[Path, int | None]:
        """Where it is, and what its file names if that is not it."""
        place = self._places.get(sequence)
        if place is None or self._identity(place) != sequence:
            self._places = self._find()
            place = self._places.get(sequence)
        if place is not None:
            return place, None
        manifest = self._manifest()
        paths = self._paths() if manifest.counts(sequence) else []
        for path in paths:
            with self._opened(path) as file:
                named = named_by(self._files, file)
                wanted = frozenset((sequence,))
                if not manifest.counts(named) and self._find_unnamed(
                    path, file, wanted
                ):
                    return path, named
        raise StaleSegment(sequence)

    def _find_unnamed(self, path: Path, file: int, wanted: frozenset[int]) -> int:
        """Which of these segments an open file holds that does not say so; 0: none.
        A file is read through once for each set that is wanted."""
        key = path, wanted
        if key not in self._unnamed:
            found = find_unnamed(
                self._files, file, wanted.__contains__, is_any_missing=True
            )
            self._unnamed[key] = found[0]
        return self._unnamed[key]

    def _find(self) -> dict[int, Path]:
        return {self._identity(path): path for path in self._paths()}

    def _paths(self) -> list[Path]:
        names = self._files.listdir(self._directory)
        return [self._directory / n for n in names if slot_number(n) is not None]

    def _identity(self, path: Path) -> int:
        """The sequence of the segment in the file now; 0 if none."""
        try:
            with self._opened(path) as file:
                return named_by(self._files, file)
        except FileNotFoundError:
            return 0

    def _look(
        self,
        path: Path,
        manifest: Manifest,
        committed_position: CommittedPosition | None,
        wanted: frozenset[int],
    ) -> KnownSegment | None:
        """What the file holds, if that counts; where it does not say so, one of the
        ``wanted`` segments."""
        try:
            with self._opened(path) as file:
                identity = identity_of(self._files, file)
                named = 0 if identity is None else identity.sequence
                is_unnamed = not manifest.counts(named)
                if is_unnamed and wanted:
                    number = self._find_unnamed(path, file, wanted)
                    identity = Identity(number, self._files.size(file), 0)
                if identity is None or not manifest.counts(identity.sequence):
                    return None
                extent = manifest.damaged.get(identity.sequence)
                known = self._known.get(identity.sequence)
                # A start may have been able to read less: what it found is the log.
                if known is None or known.extent != extent:
                    known = KnownSegment(path, identity, extent=extent)
                known.is_unnamed = is_unnamed
                other = named if is_unnamed else None
                segment = SegmentFile(self._files, file, identity.sequence, other)
                if is_unnamed:
                    self._report(first_sector_is(segment.sequence, named))
                self._advance(known, segment, committed_position)
                segment.check_current()
                return known
        except (FileNotFoundError, StaleSegment):
            return None

    def _advance(
        self,
        known: KnownSegment,
        segment: SegmentFile,
        committed_position: CommittedPosition | None,
    ) -> None:
        """Read the entries that came since the last look."""
        if known.is_read:
            return
        known.seal = seal = segment.seal()
        extent = known.extent
        if extent is not None:
            self._walk(known, segment, extent.end, holes=extent.holes)
            known.finish()
        elif seal is not None:
            if committed_position is None or (
                committed_position.sequence <= segment.sequence
            ):  # no successor yet: the seal's own sync may be under way
                self._sync(segment.file)
            if known.end == HEADER_BLOCK_BYTES and self._read_footer(
                known, segment, seal
            ):
                return
            self._walk(known, segment, seal.data_end)
            known.finish()
            self._leave_in_footer(known, segment, seal)
        elif (
            committed_position is not None
            and committed_position.sequence == segment.sequence
        ):
            end, is_durable = committed_position.position, committed_position.synced
            if end > known.end and not is_durable:  # else tables were ahead of the log
                self._sync(segment.file)
            self._walk(known, segment, end, durable=is_durable)
        elif (
            committed_position is not None
            and committed_position.sequence > segment.sequence
        ):
            # Its seal is damaged, or it was when the broker found it, and sealed never.
            size = self._files.size(segment.file)
            self._walk(known, segment, size, durable=False, is_complete=True)
            self._lose_rest(known, size)
            known.finish()

    def _sync(self, file: int) -> None:
        """Raises OSError; not where files are for reading only, as in an image."""
        try:
            self._files.fdatasync(file)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EROFS):
                raise

    def _read_footer(
        self, known: KnownSegment, segment: SegmentFile, seal: Seal
    ) -> bool:
        rows = segment.footer(seal)
        if rows is None:
            self._report(f"segment {seal.sequence}: the footer fails its checksum")
            known.is_damaged = True
            return False
        known.take_footer(rows, seal.data_end)
        return True

    def _leave_in_footer(
        self, known: KnownSegment, segment: SegmentFile, seal: Seal
    ) -> None:
        """Keep no rows of one that was read in pieces, if its footer has the same."""
        if known.is_damaged or known.holes or known.end != seal.data_end:
            return
        rows = segment.footer(seal)
        if rows is not None and len(rows) == known.batches:
            known.take_footer(rows, seal.data_end)

    def _walk(
        self,
        known: KnownSegment,
        segment: SegmentFile,
        limit: int,
        *,
        durable: bool = True,
        holes: Holes = (),
        is_complete: bool = False,
    ) -> None:
        if limit <= known.end:
            return
        durable_end = limit if durable else 0
        found = segment.scan(
            limit, durable_end=durable_end, start=known.end, holes=holes,
            is_complete=is_complete,
        )  # fmt: skip
        segment.check_current()
        for text in found.damage:
            self._report(text)
        known.is_damaged |= bool(found.damage)
        known.holes += found.holes
        known.end = found.end
        known.add(rows_of(bytes(found.rows)))

    def _lose_rest(self, known: KnownSegment, size: int) -> None:
        """Nothing says any more where the entries of a segment ended that has no seal:
        some may have stood behind the last one that was found."""
        if not known.holes:
            self._report(
                f"segment {known.identity.sequence}: it has no readable seal, and what "
                f"was behind byte {known.end} is not known"
            )
        # A file that was cut short held more.
        known.holes.append((known.end, max(known.end, size, known.identity.file_bytes)))
        known.is_damaged = True

    def _report(self, text: str) -> None:
        if text not in self.damage:
            self.damage.append(text)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        file = self._files.open_read(path)
        try:
            yield file
        finally:
            self._files.close(file)
