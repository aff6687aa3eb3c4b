"""The carrier: one carry at a time, a piece whenever the recycler has time for it.

The problem. Copying a segment takes a second, and the recycler's thread must make files
for a writer that waits meanwhile. And between the copy and the manifest that lists it
anything may fail.

The idea. A request is begun, written piece by piece, and then *switched* in memory:
from then on every manifest that is written lists the new segment and not those that it
replaces. When one is durable the asker is called, who sees to it that nobody reads the
old ones any more and releases them. Until the switch any trouble ends the request and
the file is removed; after it there is no way back: if the manifest cannot be written,
it is tried again, as any other is.

Runs on the recycler's thread but for `ask`.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from broker.ids import TopicPartition
from broker.storage.carry import (
    Carried,
    Kept,
    Needed,
    NotCarried,
    SourceDamaged,
    bytes_of,
    kept_of,
)
from broker.storage.carry import write as write_carried
from broker.storage.files import Files
from broker.storage.manifest import Manifest
from broker.storage.pool import SlotPool
from broker.storage.ranges import ranges_of
from broker.storage.segment import SealedSegment, Slot
from broker.storage.segment_registry import SegmentRegistry

Steps = Generator[None, None, tuple[SealedSegment, Carried]]

log = structlog.get_logger("lakelog.storage")


@dataclass(frozen=True, slots=True)
class Request:
    """Carry what is ``needed`` of these segments, in order; ``done`` hears on the
    recycler's thread what came of it, None if nothing did."""

    sequences: tuple[int, ...]
    needed: Needed
    done: Callable[[Carried | None], None]


class Carrier:
    """Owned by the recycler, which does the pieces; ``segments``: all that exist."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        pool: SlotPool,
        segments: SegmentRegistry,
    ) -> None:
        self._files = files
        self._directory = directory
        self._pool = pool
        self._segments = segments
        self._request: Request | None = None
        self._sources: list[SealedSegment] = []
        self._slot: Slot | None = None
        self._steps: Steps | None = None
        self._switched: Carried | None = None
        self._barred = False

    @property
    def is_at_work(self) -> bool:
        """Whether there is a piece to do now."""
        return self._request is not None and self._switched is None

    @property
    def is_unlisted(self) -> bool:
        """Whether a manifest must be written before the asker may be notified."""
        return self._switched is not None

    def reads(self, sequence: int) -> bool:
        """Whether the segment is being copied."""
        return any(each.sequence == sequence for each in self._sources)

    def ask(self, request: Request) -> None:
        """One at a time: another one is answered at once that nothing comes of it."""
        if self._request is not None:
            request.done(None)
            return
        self._request = request

    def step(self, manifest: Manifest) -> None:
        """Do one piece of the copying that was asked for. Raises nothing."""
        if not self.is_at_work:
            return
        try:
            if self._steps is None:
                self._steps = self._carry(manifest)
            next(self._steps)
        except StopIteration as end:
            self._switch(*end.value)
        except SourceDamaged as error:
            self._segments.mark_damaged(error.sequence)
            self.give_up(str(error))
        except (NotCarried, OSError) as error:
            self.give_up(str(error))
        except Exception as error:  # the thread has other work to do
            log.exception("a fault while batches were carried")
            self.give_up(repr(error))

    def notify(self) -> None:
        """A manifest that lists the new segment is durable."""
        carried, self._switched = self._switched, None
        self._finish(carried)

    def give_up(self, why: str) -> None:
        """All stays as it was before the request, if there is one and no switch yet."""
        if not self.is_at_work:
            return
        log.warning("batches were not carried", why=why)
        slot = self._slot
        if slot is not None:
            self._files.close(slot.file)
            try:
                self._files.unlink(slot.path)
                self._files.fsync_dir(self._directory)
            except OSError as error:  # a start will do it; its number is not used again
                self._barred = True
                log.error("nothing is carried any more", why=str(error))
        self._finish(None)

    def _carry(self, manifest: Manifest) -> Steps:
        """Find what is needed, a segment at a time, then write it."""
        request = self._request
        assert request is not None
        number = self._number(request, manifest)
        self._sources = [self._source(each) for each in request.sequences]
        kept = []
        for source in self._sources:
            kept.append(kept_of(self._files, source, request.needed))
            yield
        if not any(len(each.rows) for each in kept):
            raise NotCarried("nothing of these segments is needed")
        self._check_order(kept)
        self._slot = self._pool.take_spare(bytes_of(kept))
        if self._slot is None:
            raise NotCarried("there is no file for it")
        return (yield from write_carried(self._files, self._slot, number, kept))

    def _number(self, request: Request, manifest: Manifest) -> int:
        """Behind the last of those that are replaced, and before the checkpoint."""
        number = request.sequences[-1] + 1
        if self._barred or not manifest.is_carried(number):
            raise NotCarried(f"there is no number behind segment {number - 1}")
        if number >= manifest.sequence:
            raise NotCarried(f"the checkpoint is not behind segment {number - 1}")
        return number

    def _check_order(self, kept: Sequence[Kept]) -> None:
        """No batch may come to lie behind one of its partition that follows it, not
        even in a segment that is released: a start may find that one still."""
        rows = {each.segment.sequence: each.rows for each in kept}
        carried: set[TopicPartition] = set()
        for segment in self._segments.all():
            sequence = segment.sequence
            if sequence in rows:
                carried.update(ranges_of(rows[sequence]))
                continue
            is_between = carried and sequence < max(rows)
            if not is_between or self._segments.is_replaced(sequence):
                continue
            assert isinstance(segment, SealedSegment), "one behind it was begun"
            if not (segment.info.intact and carried.isdisjoint(segment.info.ranges)):
                raise NotCarried(f"segment {sequence} lies between")

    def _source(self, sequence: int) -> SealedSegment:
        segment = self._segments.readable(sequence)
        if not isinstance(segment, SealedSegment):
            raise NotCarried(f"segment {sequence} is not there any more")
        return segment

    def _switch(self, segment: SealedSegment, carried: Carried) -> None:
        self._segments.replace(carried.sequences, segment)
        self._switched = carried

    def _finish(self, carried: Carried | None) -> None:
        request, self._request = self._request, None
        self._sources, self._slot, self._steps = [], None, None
        if request is not None:
            request.done(carried)
