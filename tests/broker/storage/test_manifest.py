"""The checkpoint file: read as it was written, or not at all."""

from contextlib import suppress

import pytest
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
from tests.broker.storage.driver import WAL
from tests.support.files import ForgetfulFiles, PowerCut, everything, nothing

U64 = st.integers(0, 2**63)
MANIFESTS = st.builds(
    Manifest, U64, U64, U64, st.frozensets(U64), st.none() | st.binary()
)


@given(MANIFESTS)
def test_it_is_read_as_it_was_written(manifest: Manifest) -> None:
    assert unpack(pack(manifest)) == manifest


def test_any_flipped_bit_and_any_cut_is_noticed() -> None:
    data = bytearray(pack(Manifest(3, 4096, 5, frozenset({2, 4}), b"state")))
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


def test_there_is_none_before_the_first() -> None:
    assert read_manifest(ForgetfulFiles(), WAL) is None


@pytest.mark.parametrize("survives", [nothing, everything])
def test_the_old_or_the_new_one_is_there_whenever_the_power_goes(survives) -> None:
    old, new = Manifest(payload=b"old"), Manifest(payload=b"new, and longer")
    for cut_at in range(1, 6):
        files = ForgetfulFiles()
        write_manifest(files, WAL, old)
        files.cut_at = len(files.calls) + cut_at
        with suppress(PowerCut):
            write_manifest(files, WAL, new)
        left = files.after_power_cut(survives)
        assert read_manifest(left, WAL) in (old, new)


def test_it_survives_once_it_was_written() -> None:
    files = ForgetfulFiles()
    write_manifest(files, WAL, Manifest(payload=b"x"))
    left = files.after_power_cut(nothing)
    assert read_manifest(left, WAL) == Manifest(payload=b"x")
    assert [path.name for path in left.names] == [NAME]
