"""Where deletion vectors are kept, and what is wrong with those that are refused."""

import os
from pathlib import Path
from uuid import UUID

import pytest

from lakehouse.errors import FileVanished, TableUnreadable
from lakehouse.files.deletion_vectors import DeletedRows, placed, z85_decoded
from lakehouse.log.actions import Vector
from tests.support.bitmaps import inline, stored, z85

UUID_ = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
IN_PROTOCOL = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
"""Of a format that went before, with another magic number."""
AS_WRITTEN = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
ROWS = [1, 5, 8]


def rows_of(root: str | Path, vector: Vector) -> list[int]:
    return DeletedRows().of(placed(str(root), vector)).tolist()


def test_the_protocols_own_example_is_read(tmp_path: Path) -> None:
    vector = Vector("i", AS_WRITTEN, None, 44, 6)
    assert rows_of(tmp_path, vector) == [3, 4, 7, 11, 18, 29]
    with pytest.raises(TableUnreadable, match="a bitmap begins with"):
        rows_of(tmp_path, Vector("i", IN_PROTOCOL, None, 40, 6))


def test_the_protocols_own_path_is_found() -> None:
    found = placed("/t", Vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6))
    assert found is not None
    assert found.place == f"/t/ab/deletion_vector_{UUID_}.bin"
    assert placed("/t", None) is None


@pytest.mark.parametrize("prefix", ["", "ab"])
def test_a_vector_in_a_file_is_read(tmp_path: Path, prefix: str) -> None:
    assert rows_of(tmp_path, stored(str(tmp_path), ROWS, UUID_, prefix)) == ROWS


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_vector_at_an_absolute_path_is_read(tmp_path: Path, scheme: str) -> None:
    root = tmp_path / "a b"
    vector = stored(str(root), ROWS, UUID_)
    place = scheme + str(root / f"deletion_vector_{UUID_}.bin").replace(" ", "%20")
    assert rows_of(root, vector._replace(storage="p", place=place)) == ROWS


def test_a_vector_at_a_path_through_a_link_is_read(tmp_path: Path) -> None:
    root, too = tmp_path / "t", tmp_path / "too"
    vector = stored(str(root), ROWS, UUID_)
    too.symlink_to(root)
    place = f"file:{too}/deletion_vector_{UUID_}.bin"
    assert rows_of(root, vector._replace(storage="p", place=place)) == ROWS


@pytest.mark.parametrize(
    "vector",
    [
        Vector("p", "/elsewhere/deletion_vector.bin", 1, 40, 6),
        Vector("u", "../other/" + z85(UUID_.bytes), 1, 40, 6),
    ],
)
def test_a_vector_outside_of_the_table_is_not_opened(vector: Vector) -> None:
    with pytest.raises(TableUnreadable, match="does not lie in /t"):
        placed("/t", vector)


@pytest.mark.parametrize(
    ("vector", "why"),
    [
        (Vector("x", "a", 1, 40, 6), "stored as 'x'"),
        (Vector("u", "short", 1, 40, 6), "no deletion vector"),
        (Vector("u", "~" * 20, 1, 40, 6), "no deletion vector"),
    ],
)
def test_a_vector_that_nobody_can_place_is_told(vector: Vector, why: str) -> None:
    with pytest.raises(TableUnreadable, match=why):
        placed("/t", vector)


def test_a_vector_whose_file_is_gone_is_looked_for_again(tmp_path: Path) -> None:
    vector = stored(str(tmp_path), ROWS, UUID_)
    os.unlink(tmp_path / f"deletion_vector_{UUID_}.bin")
    with pytest.raises(FileVanished):
        rows_of(tmp_path, vector)


def test_no_damaged_byte_of_a_file_gives_other_rows(tmp_path: Path) -> None:
    vector = stored(str(tmp_path), ROWS, UUID_)
    file = tmp_path / f"deletion_vector_{UUID_}.bin"
    whole = file.read_bytes()
    for at in range(1, len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(TableUnreadable, match=r"checksum|size"):
            rows_of(tmp_path, vector)
    file.write_bytes(whole[:-1])
    with pytest.raises(TableUnreadable, match="cut off"):
        rows_of(tmp_path, vector)


@pytest.mark.parametrize("change", [{"cardinality": 4}, {"size": 0}, {"size": -20}])
def test_what_the_log_says_must_fit(tmp_path: Path, change: dict[str, int]) -> None:
    for vector in (inline(ROWS), stored(str(tmp_path), ROWS, UUID_)):
        with pytest.raises(TableUnreadable):
            rows_of(tmp_path, vector._replace(**change))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["abc", "~~~~~", "#####"])
def test_what_is_no_z85_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no Z85"):
        z85_decoded(text)


def test_what_was_read_is_kept_within_a_bound(tmp_path: Path) -> None:
    vectors = [placed("/t", inline([n])) for n in range(5)]
    kept = DeletedRows(bytes_max=16)
    assert [kept.of(vector).tolist() for vector in vectors] == [[n] for n in range(5)]
    assert kept.size_bytes == 16
    assert kept.of(vectors[4]) is kept.of(vectors[4])
    kept.clear()
    assert (kept.size_bytes, kept.of(None).tolist()) == (0, [])


def test_what_is_no_file_in_a_vectors_place_is_not_waited_for(tmp_path: Path) -> None:
    vector = stored(str(tmp_path), ROWS, UUID_)
    path = tmp_path / f"deletion_vector_{UUID_}.bin"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(TableUnreadable, match="no file but a FIFO"):
        rows_of(tmp_path, vector)
