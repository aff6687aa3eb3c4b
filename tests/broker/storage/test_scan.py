"""Where a segment ends: torn tail, damage, or simply the end."""

import random
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage import many_entries
from broker.storage.columns import ROW_BYTES, rows_of
from broker.storage.entry import ENTRY_HEADER_BYTES, pack_entry, read_entry
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.scan import Scan, scan
from tests.broker.storage.driver import an_append, batch

scan_of_segments = import_module("broker.storage.scan")
GENERATION = 3
SIZE = 100
STRIDE = 148


def a_segment(*groups: int, generation: int = GENERATION) -> bytearray:
    """Groups of so many entries of 148 bytes, each group synced before the next."""
    data = bytearray(HEADER_BLOCK_BYTES)
    offset = 0
    for count in groups:
        synced = len(data)
        for _ in range(count):
            one = an_append(batch(offset, SIZE))
            data += pack_entry(one, generation, synced, len(data))
            data += bytes(one.batch)
            offset += 1
    return data


def place(entry: int) -> int:
    return HEADER_BLOCK_BYTES + entry * STRIDE


def scanned(data: bytearray, durable_end: int = 0, **known: Any) -> Scan:
    view = memoryview(bytes(data) + bytes(1000))
    return scan(view, GENERATION, limit=len(view), durable_end=durable_end, **known)


def offsets(found: Scan) -> list[int]:
    return rows_of(bytes(found.rows))["base"].tolist()


def test_a_whole_segment_ends_where_it_ends() -> None:
    found = scanned(a_segment(2, 3))
    assert offsets(found) == [0, 1, 2, 3, 4]
    assert (found.end, found.torn, found.damage) == (place(5), None, [])


def test_old_entries_behind_the_end_are_not_there() -> None:
    found = scanned(a_segment(2) + a_segment(6, generation=2)[place(2) :])
    assert offsets(found) == [0, 1]
    assert found.torn is None


@pytest.mark.parametrize("entry", [2, 3, 4])
@pytest.mark.parametrize("at", [5, 40, 47, 60, 100, 147])
def test_a_hole_in_the_last_group_is_a_torn_tail(entry: int, at: int) -> None:
    data = a_segment(2, 3)
    data[place(entry) + at] ^= 0xFF
    found = scanned(data)
    assert offsets(found) == list(range(entry))
    assert found.torn is not None or (entry, at) == (4, 5)
    assert (found.end, found.damage) == (place(entry), [])


@pytest.mark.parametrize("entry", [0, 1])
@pytest.mark.parametrize("at", [5, 40, 47, 60, 100, 147])
def test_a_hole_before_the_last_group_is_damage(entry: int, at: int) -> None:
    data = a_segment(2, 3)
    data[place(entry) + at] ^= 0xFF
    found = scanned(data)
    assert offsets(found) == [each for each in range(5) if each != entry]
    assert len(found.damage) == 1
    assert f"bytes {place(entry)} to {place(entry + 1)}" in found.damage[0]
    assert found.torn is None


def test_below_the_committed_position_nothing_is_torn() -> None:
    data = a_segment(2, 3)
    data[place(3) + 60] ^= 0xFF
    found = scanned(data, durable_end=place(5))
    assert offsets(found) == [0, 1, 2, 4]
    assert len(found.damage) == 1


def test_a_hole_of_many_entries_is_one_damage() -> None:
    data = a_segment(1, 1, 1, 1, 1)
    data[place(1) : place(3) + 20] = bytes(place(3) + 20 - place(1))
    found = scanned(data)
    assert offsets(found) == [0, 4]
    assert len(found.damage) == 1


@pytest.mark.parametrize(
    ("at", "unclaimed"), [(60, 0), (20, place(3))], ids=["batch", "header"]
)
def test_a_hole_is_unclaimed_where_no_header_says_what_was_there(
    at: int, unclaimed: int
) -> None:
    data = a_segment(1, 1, 1, 1)
    data[place(1) + 60] ^= 1
    data[place(2) + at] ^= 1
    found = scanned(data)
    assert (offsets(found), found.unclaimed_below) == ([0, 3], unclaimed)
    assert found.holes == [(place(1), place(3))]


@pytest.mark.parametrize(
    ("first", "end", "is_counted"),
    [(48, 148, False), (48, 90, False), (100, 148, False), (109, 148, True)],
    ids=["all", "delta", "count", "records"],
)
def test_a_hole_is_unclaimed_where_zeros_stand_for_how_many_it_had(
    first: int, end: int, is_counted: bool
) -> None:
    """As where a sector was lost: the entry's header names the batch, and no more."""
    data = a_segment(1)
    for base, records in ((1, 30), (31, 1)):
        one = an_append(batch(base, SIZE, records=records))
        data += pack_entry(one, GENERATION, len(data), len(data)) + one.batch
    data[place(1) + first : place(1) + end] = bytes(end - first)
    found = scanned(data)
    assert (offsets(found), found.holes) == ([0, 31], [(place(1), place(2))])
    assert found.unclaimed_below == (0 if is_counted else place(2))
    assert found.claims[0][:3] == ((1, 0), 1, 2 if (first, end) == (48, 148) else 31)


@pytest.mark.parametrize("before", [None, 1], ids=["zeros", "an old batch"])
@pytest.mark.parametrize("at", range(62))
def test_a_sector_that_was_lost_hides_no_offsets_wherever_it_begins(
    at: int, before: int | None
) -> None:
    """Zeros, or what stood there before, in the same place: a batch of one record."""
    size, data = 700, a_segment(1)
    filler = (-(len(data) + 2 * ENTRY_HEADER_BYTES + at + 100)) % 512 + 100
    true = an_append(batch(2, size, records=300))
    for one in (an_append(batch(1, filler)), true, an_append(batch(302, SIZE))):
        start = len(data) + ENTRY_HEADER_BYTES
        data += pack_entry(one, GENERATION, len(data), len(data)) + one.batch
        if one is true:
            lost = start + at
    old = bytes(size) if before is None else batch(2, size, records=before, seed=5)
    data[lost : lost + 512] = old[at : at + 512]
    found = scanned(data)
    assert offsets(found) == [0, 1, 302]
    assert lost % 512 == 0
    assert found.unclaimed_below or found.claims[0].end == 302
    assert bool(found.unclaimed_below) == (at < 61)


def test_two_holes_are_two_damages() -> None:
    data = a_segment(1, 1, 1, 1, 1)
    for entry in (1, 3):
        data[place(entry) + 70] ^= 0xFF
    found = scanned(data)
    assert offsets(found) == [0, 2, 4]
    assert len(found.damage) == 2


def test_an_entry_inside_a_batch_is_no_entry() -> None:
    """A copy of this segment travels through this log, and the tail is torn."""
    inner = a_segment(1, 1, 1)[HEADER_BLOCK_BYTES:]
    one = an_append(batch(7, SIZE + len(inner)))
    body = bytearray(one.batch)
    body[-len(inner) :] = inner
    data = a_segment(1)
    data += pack_entry(one, GENERATION, len(data), len(data)) + body
    found = scanned(data)
    assert offsets(found) == [0]
    assert found.damage == []


@pytest.mark.parametrize("entry", [2, 3, 4])
@pytest.mark.parametrize("at", [0, 20, 60, 147])
def test_what_cannot_be_read_is_no_torn_tail(entry: int, at: int) -> None:
    """Nothing proves that it was durable, nor that it was not."""
    data = a_segment(2, 3)
    bad = place(entry) + at, place(entry) + at + 1
    data[bad[0]] ^= 0xFF
    found = scanned(data, unread=(bad,))
    assert offsets(found) == [each for each in range(5) if each != entry]
    assert found.torn is None
    assert "cannot be read, and may have been durable" in found.damage[0]
    last = entry == 4
    assert found.holes == [(place(entry), bad[1] if last else place(entry + 1))]


def test_a_place_that_cannot_be_read_behind_the_next_entrys_is_nothing() -> None:
    data = a_segment(2, 3)
    found = scanned(data, unread=((place(5) + 48, place(9)),))
    assert offsets(found) == [0, 1, 2, 3, 4]
    assert (found.end, found.torn, found.damage) == (place(5), None, [])


def test_around_places_that_cannot_be_read_entries_are_verified_many_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each of them is asked about each place: minutes for a segment."""
    data = a_segment(*[1] * 600)
    unread = tuple((place(each), place(each) + 10) for each in range(100, 600, 100))
    for start, end in unread:
        data[start:end] = bytes(end - start)
    asked = []

    def one(view: memoryview, position: int, *rest: int, **more: Any) -> Any:
        asked.append(position)
        return read_entry(view, position, *rest, **more)

    monkeypatch.setattr(scan_of_segments, "read_entry", one)
    found = scanned(data, unread=unread)
    assert len(found.holes) == len(unread)
    assert len(found.rows) // ROW_BYTES == 595
    assert len(asked) < 50


def test_behind_a_durable_place_that_is_damaged_the_walk_goes_on() -> None:
    """After a power cut the position may be older than the truth."""
    data = a_segment(3)
    data[place(0) + 60] ^= 0xFF
    found = scanned(data, durable_end=place(1))
    assert offsets(found) == [1, 2]
    assert found.holes == [(place(0), place(1))]


@pytest.mark.parametrize("at", [20, 60], ids=["header", "batch"])
@pytest.mark.parametrize("first", [0, 1])
def test_what_is_whole_and_in_the_footer_of_one_that_has_a_successor_was_durable(
    at: int, first: int
) -> None:
    """In the relaxed mode no entry may say so of another. What was refused, or never
    finished, lies behind the footer."""
    data = a_segment(8)
    rows = bytes(scanned(data).rows)[: 4 * ROW_BYTES]
    data[place(4) : place(4) + len(rows)] = rows
    data[place(first) + at] ^= 1
    kept = [each for each in range(4) if each != first]
    assert offsets(scanned(data)) == kept[:first]
    found = scanned(data, is_complete=True)
    assert offsets(found) == kept
    assert (found.end, found.holes) == (place(4), [(place(first), place(first + 1))])


def test_a_proof_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many places are damaged that it stands for."""
    data, looked_at = a_segment(200, 1), []
    for entry in range(1, 200, 2):
        data[place(entry) + 60] ^= 1
    read = scan_of_segments.read_entry

    def counted(view: memoryview, position: int, *more: int) -> object:
        looked_at.append(position)
        return read(view, position, *more)

    monkeypatch.setattr(scan_of_segments, "read_entry", counted)
    found = scanned(data)
    assert len(found.damage) == 100
    assert len(looked_at) < 5 * 201


@pytest.mark.parametrize("is_whole", [True, False])
def test_nothing_counts_in_a_place_that_was_found_damaged_before(
    *, is_whole: bool
) -> None:
    data = a_segment(2, 3)
    holes = (place(1), place(3)), (place(4), place(5))
    if not is_whole:
        data[place(1) + 60] ^= 0xFF
    found = scanned(data, holes=holes)
    assert offsets(found) == [0, 3]
    assert tuple(found.holes) == holes
    assert len(found.damage) == 2
    assert ("were durable and are damaged" in found.damage[0]) != is_whole
    rest = scanned(data, holes=holes, start=place(3))
    assert (offsets(rest), tuple(rest.holes)) == ([3], holes[1:])


@pytest.mark.parametrize("size", [0, 47, 48, 108, 109, HEADER_BLOCK_BYTES])
def test_a_file_that_was_cut_off_is_damage_and_no_fault_of_ours(size: int) -> None:
    """However little of it is left, if it should hold durable entries."""
    data = bytes(a_segment(2))[:size]
    found = scan(
        memoryview(data), GENERATION, limit=HEADER_BLOCK_BYTES, durable_end=place(2)
    )
    assert not found.rows
    assert found.holes == [(HEADER_BLOCK_BYTES, place(2))]


@given(st.lists(st.integers(61, 300), min_size=1, max_size=12), st.randoms())
def test_many_at_once_say_what_each_would_say(
    sizes: list[int], chance: random.Random
) -> None:
    """Whatever is damaged, and wherever the disk cannot read."""
    data, end = bytearray(HEADER_BLOCK_BYTES), HEADER_BLOCK_BYTES
    for number, size in enumerate(sizes):
        one = an_append(batch(100 + number, size), partition=number % 3)
        data += pack_entry(
            one, GENERATION, chance.choice([HEADER_BLOCK_BYTES, end]), len(data)
        )
        data += one.batch
        end = len(data)
    for _ in range(chance.randrange(4)):
        data[chance.randrange(HEADER_BLOCK_BYTES, len(data))] ^= 1 << chance.randrange(
            8
        )
    durable_end = chance.choice(
        [0, chance.randrange(HEADER_BLOCK_BYTES, len(data) + 1)]
    )
    unread = chance.choice(
        [
            (),
            ((HEADER_BLOCK_BYTES, HEADER_BLOCK_BYTES + 4096),),
            tuple(
                (at, at + 512) for at in range(4608, 9000, 512) if chance.random() < 0.3
            ),
        ]
    )
    how = {"limit": len(data), "durable_end": durable_end, "unread": unread}
    found = scan(memoryview(data), GENERATION, **how)
    with pytest.MonkeyPatch.context() as patch:
        none = (rows_of(b""), 0)
        patch.setattr(scan_of_segments, "run_of_entries", lambda *_: none)
        assert scan(memoryview(data), GENERATION, **how) == found
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_of_segments, "ENTRIES_AT_ONCE", 3)
        patch.setattr(many_entries, "ENTRIES_AT_ONCE", 3)
        assert scan(memoryview(data), GENERATION, **how) == found
