"""Many entries at once say what each of them says by itself."""

import random

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from broker.records.batch import read_header, seal
from broker.storage import many_entries
from broker.storage.columns import Ints, pack_entry_row
from broker.storage.entry import (
    CHECKSUM,
    ENTRY_HEADER_BYTES,
    HEAD,
    Entry,
    pack_entry,
    read_entry,
)
from broker.storage.many_entries import (
    as_headers,
    headers_at,
    pieces,
    planned,
    run_of_entries,
    whole,
)
from tests.broker.storage.driver import an_append, batch

START, GENERATION = 4096, 7
HEAD_FIELDS = len(HEAD.format) - 1


def a_segment(sizes: list[int]) -> tuple[bytearray, Ints]:
    """So large batches one behind the other, and where each one begins."""
    data, positions = bytearray(START), []
    for number, size in enumerate(sizes):
        one = an_append(batch(100 + number, size), partition=number % 3, topic=9)
        data += pack_entry(one, GENERATION, START, len(data))
        positions.append(len(data))
        data += one.batch
    return data, np.array(positions, np.int64)


def asked_one_by_one(
    data: bytes | bytearray, positions: Ints, limit: int
) -> list[bool]:
    view = memoryview(data)
    places = [position - ENTRY_HEADER_BYTES for position in positions.tolist()]
    found = [read_entry(view, place, GENERATION, limit) for place in places]
    return [isinstance(one, Entry) for one in found]


def asked(
    data: bytes | bytearray, positions: Ints, limit: int | None = None
) -> list[bool]:
    limit = len(data) if limit is None else limit
    found: list[bool] = whole(memoryview(data), positions, GENERATION, limit).tolist()
    return found


def test_whole_entries_are_whole() -> None:
    data, positions = a_segment([61, 150, 4000, 61])
    assert asked(data, positions) == [True] * 4
    assert asked(data, positions[:0]) == []
    assert whole(memoryview(data), positions, GENERATION + 1, len(data)).sum() == 0


def test_any_flipped_bit_of_any_entry_is_noticed() -> None:
    data, positions = a_segment([70, 61, 70])
    for bit in range(START * 8, len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        expected = asked_one_by_one(data, positions, len(data))
        assert asked(data, positions) == expected
        assert expected.count(False) == 1
        data[bit // 8] ^= 1 << bit % 8


def test_any_cut_is_noticed() -> None:
    data, positions = a_segment([70, 61])
    for end in range(START, len(data) + 1):
        expected = asked_one_by_one(data[:end], positions, end)
        assert asked(data[:end], positions) == expected
        assert asked(data, positions, limit=end) == expected


@pytest.mark.parametrize("field", range(HEAD_FIELDS))
def test_a_header_that_lies_under_a_right_checksum_is_noticed(field: int) -> None:
    """Of all its fields but those of which nobody reads anything here."""
    data, positions = a_segment([70, 80, 61])
    place = int(positions[1]) - ENTRY_HEADER_BYTES
    fields = list(HEAD.unpack_from(data, place))
    fields[field] += 1
    head = HEAD.pack(*fields)
    data[place : place + ENTRY_HEADER_BYTES] = head + CHECKSUM.pack(crc32c(head, place))
    expected = asked_one_by_one(data, positions, len(data))
    assert asked(data, positions) == expected


@given(st.data())
def test_places_where_no_entry_begins_are_none(drawn: st.DataObject) -> None:
    data, positions = a_segment([61, 62])
    data += drawn.draw(st.binary(max_size=200))
    wanted = drawn.draw(st.lists(st.integers(0, len(data) + 200), max_size=5))
    places = np.sort(np.append(positions, np.array(wanted, np.int64)))
    found = asked(data, places)
    assert found == [place in positions for place in places]


def test_more_entries_than_are_looked_at_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(many_entries, "ENTRIES_AT_ONCE", 2)
    data, positions = a_segment([100] * 5)
    data[int(positions[3]) + 80] ^= 1
    assert asked(data, positions) == [True, True, True, False, True]
    assert [(one.start, one.stop) for one in pieces(5)] == [(0, 2), (2, 4), (4, 5)]


def test_headers_are_what_each_batch_says() -> None:
    chance, batches = random.Random(1), []
    for number in range(20):
        data = bytearray(batch(number, 61 + number))
        data[21:61] = chance.randbytes(40)
        seal(data)
        batches.append(bytes(data))
    positions = np.cumsum([5, *map(len, batches[:-1])])
    view = memoryview(bytes(5) + b"".join(batches))
    found = list(as_headers(headers_at(view, positions)))
    assert found == [read_header(one) for one in batches]


def test_what_was_planned_is_there_or_not_and_its_headers_are_told() -> None:
    data, positions = a_segment([70, 61, 150])
    view, lengths = memoryview(data), np.array([70, 61, 150], np.int64)
    bases = np.array([100, 101, 102], np.int64)
    found = planned(view, positions, lengths, bases, GENERATION)
    assert found is not None
    assert [tuple(one) for one in found.tolist()] == [
        tuple(read_header(data, position)) for position in positions.tolist()
    ]
    assert planned(view, positions, lengths, bases, GENERATION + 1) is None
    for number in range(3):
        for column in (positions, lengths, bases):
            for other in (-(1 << 40), -1, 1, 1 << 40):
                column[number] += other
                assert planned(view, positions, lengths, bases, GENERATION) is None
                column[number] -= other
    nothing = positions[:0]
    none = planned(view, nothing, nothing, nothing, GENERATION)
    assert none is not None
    assert len(none) == 0


def test_any_flipped_bit_of_what_was_planned_is_noticed() -> None:
    """But for those of an entry's header that say nothing of the batch, and of the
    leader epoch, which no checksum of the batch covers."""
    data, positions = a_segment([70, 61])
    lengths, bases = np.array([70, 61], np.int64), np.array([100, 101], np.int64)
    unseen = set()
    for position in positions.tolist():
        head = position - ENTRY_HEADER_BYTES
        unseen |= {*range(head + 12, position), *range(position + 12, position + 16)}
        unseen.add(position + 16)  # the magic of a batch, which is looked at once
    for bit in range(START * 8, len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        found = planned(memoryview(data), positions, lengths, bases, GENERATION)
        assert (found is None) == (bit // 8 not in unseen), bit // 8
        data[bit // 8] ^= 1 << bit % 8


def walked(data: bytes | bytearray, limit: int) -> list[bytes]:
    """Rows of the entries that follow each other and verify, asked one by one."""
    rows, at = [], START
    while True:
        entry = read_entry(memoryview(data), at, GENERATION, limit)
        if isinstance(entry, str):
            return rows
        rows.append(pack_entry_row(entry))
        at = entry.position + entry.length


@given(st.lists(st.integers(61, 400), max_size=20), st.randoms())
def test_a_run_of_entries_ends_where_one_by_one_they_end(
    sizes: list[int], chance: random.Random
) -> None:
    data, _ = a_segment(sizes)
    data += bytes(chance.randrange(100))
    for _ in range(chance.randrange(3) if len(data) > START else 0):
        data[chance.randrange(START, len(data))] ^= 1 << chance.randrange(8)
    limit = chance.choice([len(data), chance.randrange(START, len(data) + 1)])
    rows, looked_at = run_of_entries(memoryview(data), START, GENERATION, limit)
    expected = walked(data, limit)
    assert [row.tobytes() for row in rows] == expected
    assert looked_at >= len(rows)


def test_a_run_is_no_longer_than_what_is_looked_at_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, _ = a_segment([61] * 9)
    monkeypatch.setattr(many_entries, "ENTRIES_AT_ONCE", 4)
    end, lengths = START, []
    for _ in range(3):
        rows, looked_at = run_of_entries(memoryview(data), end, GENERATION, len(data))
        lengths.append((len(rows), looked_at))
        end = int(rows["position"][-1] + rows["length"][-1])
    assert lengths == [(4, 4), (4, 4), (1, 1)]
    assert end == len(data)
