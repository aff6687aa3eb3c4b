"""What lies behind the checkpoint, all of it or what is said of producers."""

from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

from broker.records.batch import read_header, seal
from broker.records.markers import Marker, marker_batch
from broker.storage.columns import ROW_TYPE, Rows
from broker.storage.entry import location_of
from broker.storage.files import Files, PosixFiles
from broker.storage.replay import Replay
from broker.storage.segment import Slot
from tests.support.batches import Record, make_batch
from tests.support.files import ForgetfulFiles

RECORDS = [Record(b"key", b"value")]
TRANSACTIONAL = 1 << 4


def marker(base: int) -> bytearray:
    made = marker_batch(8, 2, Marker(True, 5), 1000)
    made[:8] = base.to_bytes(8, "big")
    return made


BATCHES = [
    make_batch(RECORDS, 0),
    make_batch(RECORDS, 1, producer=(7, 1, 0)),
    make_batch(RECORDS, 2, producer=(8, 2, 0), attributes=TRANSACTIONAL),
    make_batch(RECORDS, 3),
    marker(4),
    make_batch(RECORDS, 5, producer=(0, 0, 0)),
]
OF_PRODUCERS = [1, 2, 4, 5]


@pytest.fixture
def files() -> Files:
    return ForgetfulFiles()


def a_segment(files: Files, name: str, batches: list[bytearray]) -> tuple[Slot, Rows]:
    """A file of nothing but these batches, and its rows."""
    file = files.create(Path(name))
    data = b"".join(batches)
    files.pwritev(file, [data], 0)
    places = np.cumsum([0, *map(len, batches)])
    rows = np.zeros(len(batches), ROW_TYPE)
    rows["topic"], rows["partition"] = 3, np.arange(len(batches))
    rows["base"] = [read_header(one).base_offset for one in batches]
    rows["position"], rows["length"] = places[:-1], np.diff(places)
    return Slot(1, Path(name), file, len(data)), rows


@pytest.fixture
def replay(files: Files) -> Replay:
    """The batches in two segments."""
    first = a_segment(files, "a", BATCHES[:3])
    second = a_segment(files, "b", BATCHES[3:])
    return Replay([(4, *first), (6, *second)], files)


def test_all_of_it_comes_in_the_order_of_writing(replay: Replay) -> None:
    found = list(replay)
    assert len(replay) == len(found) == len(BATCHES)
    assert [one.header for one in found] == [read_header(one) for one in BATCHES]
    assert [one.location >> 32 for one in found] == [4, 4, 4, 6, 6, 6]
    assert found[1].location == location_of(4, len(BATCHES[0]))
    assert [(one.topic_number, one.partition) for one in found[:3]] == [
        (3, 0),
        (3, 1),
        (3, 2),
    ]
    assert [one.marker for one in found] == [None] * 4 + [Marker(True, 5), None]


def test_what_is_said_of_producers_is_all_but_plain_batches(replay: Replay) -> None:
    everything = list(replay)
    assert list(replay.of_producers()) == [everything[at] for at in OF_PRODUCERS]


def test_a_batch_that_does_not_end_where_its_row_says_is_judged_by_who_asks(
    files: Files,
) -> None:
    slot, rows = a_segment(
        files, "a", [make_batch(RECORDS, 9), make_batch(RECORDS, 10)]
    )
    rows["last_delta"][1] = 3
    (found,) = Replay([(4, slot, rows)], files).of_producers()
    assert found.header.base_offset == 10


def test_a_marker_of_another_version_says_nothing(files: Files) -> None:
    odd = marker(0)
    odd[68] ^= 1
    seal(odd)
    (found,) = Replay([(4, *a_segment(files, "a", [odd]))], files)
    assert (found.header.is_control, found.marker) == (True, None)


def test_one_that_is_not_read_to_its_end_holds_no_file(tmp_path: Path) -> None:
    files = PosixFiles()
    slot, rows = a_segment(files, str(tmp_path / "a"), BATCHES)
    some = Replay([(4, slot, rows)], files).of_producers()
    assert isinstance(some, Generator)
    next(some)
    some.close()  # a view that is alive would raise BufferError
    files.close(slot.file)
