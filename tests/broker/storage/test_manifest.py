"""The checkpoint file: read as it was written, or not at all."""

import struct
from contextlib import suppress
from dataclasses import replace

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.manifest import (
    NAME,
    Manifest,
    ManifestDamaged,
    pack,
    read_manifest,
    unpack,
    write_manifest,
)
from broker.storage.objects import LocalObjects
from broker.storage.segment import DamagedExtent
from tests.broker.storage.driver import WAL
from tests.support.files import ForgetfulFiles, PowerCut, everything, nothing

U64 = st.integers(0, 2**63)
DAMAGED = {2: DamagedExtent(5000, ((4096, 4500),)), 4: DamagedExtent(6000)}
EXTENTS = st.builds(
    DamagedExtent, U64, st.lists(st.tuples(U64, U64), max_size=3).map(tuple)
).filter(lambda extent: extent != DamagedExtent(0))  # no entry ends there
MANIFESTS = st.builds(
    Manifest,
    U64,
    U64,
    U64,
    st.frozensets(U64),
    st.none() | st.binary(),
    spaced_from=U64,
    damaged=st.dictionaries(U64, EXTENTS),
    unexplained=st.frozensets(U64),
).map(lambda one: replace(one, unexplained=one.unexplained - one.damaged.keys()))


@given(MANIFESTS)
def test_it_is_read_as_it_was_written(manifest: Manifest) -> None:
    assert unpack(pack(manifest)) == manifest


def test_a_payload_in_pieces_is_read_as_one() -> None:
    whole = Manifest(3, 4096, 5, frozenset({2, 4}), b"one, two, three")
    split = Manifest(3, 4096, 5, frozenset({2, 4}), b"one, ", (b"two, ", b"", b"three"))
    assert pack(split) == pack(whole)
    assert unpack(pack(split)) == whole


def test_any_flipped_bit_and_any_cut_is_noticed() -> None:
    manifest = Manifest(3, 4096, 5, frozenset({2, 4}), b"state", damaged=DAMAGED)
    data = bytearray(pack(manifest))
    for bit in range(len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ManifestDamaged):
            unpack(bytes(data))
        data[bit // 8] ^= 1 << bit % 8
    for end in range(len(data)):
        with pytest.raises(ManifestDamaged):
            unpack(bytes(data[:end]))


def test_a_segment_counts_if_it_is_listed_or_newer() -> None:
    manifest = Manifest(known=5, live=frozenset({2, 4}))
    assert [n for n in range(1, 9) if manifest.counts(n)] == [2, 4, 6, 7, 8]


def test_a_carried_segment_counts_only_if_it_is_listed() -> None:
    manifest = Manifest(known=6, live=frozenset({3, 7}), spaced_from=6)
    assert [n for n in range(1, 13) if manifest.counts(n)] == [3, 7, 8, 10, 12]
    assert [n for n in range(1, 13) if manifest.is_carried(n)] == [7, 9, 11]


def test_one_of_the_first_version_is_read() -> None:
    head = struct.pack("<8sQQQIIQ", b"LAKECKP1", 3, 4096, 5, 2, 1, 5)
    head += struct.pack("<2Q", 2, 4)
    data = head + struct.pack("<I", crc32c(head)) + b"state"
    data += struct.pack("<I", crc32c(b"state"))
    manifest = unpack(data)
    assert manifest == Manifest(3, 4096, 5, frozenset({2, 4}), b"state")
    assert [n for n in range(1, 9) if manifest.counts(n)] == [2, 4, 6, 7, 8]
    for end in range(len(data)):
        with pytest.raises(ManifestDamaged):
            unpack(data[:end])


def test_one_of_the_second_version_is_read() -> None:
    head = struct.pack("<8sQQQIIQQ", b"LAKECKP2", 3, 4096, 6, 3, 1, 5, 6)
    head += struct.pack("<3Q", 2, 4, 7)
    data = head + struct.pack("<I", crc32c(head)) + b"state"
    data += struct.pack("<I", crc32c(b"state"))
    live = frozenset({2, 4, 7})
    assert unpack(data) == Manifest(3, 4096, 6, live, b"state", spaced_from=6)
    for end in range(len(data)):
        with pytest.raises(ManifestDamaged):
            unpack(data[:end])


def test_who_knows_no_holes_finds_the_end_of_a_damaged_segment_all_the_same() -> None:
    """As the pairs were read before there were holes."""
    data = pack(Manifest(damaged=DAMAGED))
    numbers = struct.unpack_from("<8Q", data, struct.calcsize("<8sQQQIIQQI"))
    assert dict(zip(numbers[::2], numbers[1::2], strict=True)) == {2: 5000, 4: 6000}


def test_what_is_unexplained_is_so_as_long_as_it_is_listed() -> None:
    manifest = Manifest(
        known=8, live=frozenset({2, 4, 6}), unexplained=frozenset({4, 6})
    )
    assert unpack(pack(manifest)).unexplained == {4, 6}
    assert manifest.with_live(frozenset({2, 4}), 8).unexplained == {4}


def test_the_end_of_a_damaged_segment_goes_with_it() -> None:
    manifest = Manifest(known=5, live=frozenset({2, 4}), damaged=DAMAGED)
    left = manifest.with_live(frozenset({4, 6}), 6).damaged
    assert left == {4: DamagedExtent(6000)}


def test_there_is_none_before_the_first() -> None:
    assert read_manifest(LocalObjects(ForgetfulFiles(), WAL)) is None


@pytest.mark.parametrize("survives", [nothing, everything])
def test_the_old_or_the_new_one_is_there_whenever_the_power_goes(survives) -> None:
    old, new = Manifest(payload=b"old"), Manifest(payload=b"new, and longer")
    for cut_at in range(1, 6):
        files = ForgetfulFiles()
        write_manifest(LocalObjects(files, WAL), old)
        files.cut_at = len(files.calls) + cut_at
        with suppress(PowerCut):
            write_manifest(LocalObjects(files, WAL), new)
        left = files.after_power_cut(survives)
        assert read_manifest(LocalObjects(left, WAL)) in (old, new)


def test_it_survives_once_it_was_written() -> None:
    files = ForgetfulFiles()
    write_manifest(LocalObjects(files, WAL), Manifest(payload=b"x"))
    left = files.after_power_cut(nothing)
    assert read_manifest(LocalObjects(left, WAL)) == Manifest(payload=b"x")
    assert [path.name for path in left.names] == [NAME]
