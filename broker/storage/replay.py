"""What was written behind the checkpoint, read again in the order of writing.

The problem. What a batch says of its producer and its transaction is nowhere but in its
header. Where the checkpoint is lost that is asked of all batches that segments hold,
millions perhaps, of which most say nothing: nobody numbered them.

The idea. Headers are read when they are asked for, some thousands together, and not
kept. Who wants only what is said of producers gets the others not at all.

The price. The pages of all headers are read once more.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from broker.ids import PartitionNumber, TopicNumber
from broker.protocol.errors import KafkaError
from broker.records.batch import BatchHeader
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import Marker, read_marker
from broker.storage.columns import Rows
from broker.storage.entry import location_of
from broker.storage.files import Files, PosixFiles
from broker.storage.many_entries import Bools, Headers, as_headers, headers_at, pieces
from broker.storage.segment import Slot

_FILES: Final = PosixFiles()


class Replayed(NamedTuple):
    """A batch behind the checkpoint; of a marker also what it says."""

    topic_number: TopicNumber
    partition: PartitionNumber
    header: BatchHeader
    location: int
    marker: Marker | None = None


class Replay:
    """All batches behind the checkpoint. ``pieces``: sequence, slot and rows of each
    segment that has any."""

    def __init__(
        self, pieces: Sequence[tuple[int, Slot, Rows]], files: Files = _FILES
    ) -> None:
        self._files = files
        self._pieces = pieces

    def __len__(self) -> int:
        return sum(len(rows) for _, _, rows in self._pieces)

    def __iter__(self) -> Iterator[Replayed]:
        return self._read(all_of_them=True)

    def of_producers(self) -> Iterator[Replayed]:
        """Those that say anything of a producer or of a transaction."""
        return self._read(all_of_them=False)

    def _read(self, *, all_of_them: bool) -> Iterator[Replayed]:
        for sequence, slot, rows in self._pieces:
            mapped = self._files.map(slot.file, slot.size)
            try:
                for which in pieces(len(rows)):
                    some = rows[which]
                    headers = headers_at(mapped.view, some["position"].astype(np.int64))
                    if not all_of_them:
                        said = _says_something(headers, some)
                        headers, some = headers[said], some[said]
                    yield from _replayed(mapped.view, sequence, headers, some)
            finally:
                mapped.close()


def _replayed(
    view: memoryview, sequence: int, headers: Headers, rows: Rows
) -> Iterator[Replayed]:
    places = rows["position"].tolist()
    keys = rows["topic"].tolist(), rows["partition"].tolist()
    for topic, partition, position, header in zip(
        *keys, places, as_headers(headers), strict=True
    ):
        yield Replayed(
            topic,
            partition,
            header,
            location_of(sequence, position),
            _marker(view, position) if header.is_control else None,
        )


def _says_something(headers: Headers, rows: Rows) -> Bools:
    """Whether a log takes up anything of these. One that does not end where its
    footer's row says is nothing that we wrote: who is asked shall judge it."""
    ends = headers["base_offset"] + headers["last_offset_delta"]
    said: Bools = headers["producer_id"] >= 0
    said |= headers["attributes"] & TRANSACTIONAL_BIT != 0
    said |= ends != rows["base"] + rows["last_delta"]
    return said


def _marker(view: memoryview, position: int) -> Marker | None:
    """What a marker says; None if another version of the program wrote it."""
    try:
        return read_marker(view, position)
    except KafkaError:
        return None
