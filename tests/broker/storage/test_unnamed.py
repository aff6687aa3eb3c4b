"""A file whose first sector is damaged is known by its entries."""

import errno
from collections.abc import Callable

import pytest

from broker.storage.layout import HEADER_BLOCK_BYTES, Identity, pack_identity
from broker.storage.unnamed import find_unnamed
from tests.broker.storage.driver import Driver
from tests.support.files import ForgetfulFiles


@pytest.fixture(params=[1, 2], ids=["one group", "two groups"])
def written(request: pytest.FixtureRequest) -> tuple[ForgetfulFiles, int, int, bool]:
    """The files, an open one, the segment in it, and whether an entry says that
    another was durable."""
    files = ForgetfulFiles()
    driver = Driver(files)
    for _ in range(request.param):
        driver.finish([driver.append(size=500)])
    (info,) = driver.wal.segments()
    driver.close()
    left = files.after_kill()
    return left, left.open(info.path), info.sequence, request.param > 1


def found_in(
    files: ForgetfulFiles,
    file: int,
    counts: Callable[[int], bool],
    *,
    is_any_missing: bool = False,
) -> tuple[int, bool]:
    return find_unnamed(files, file, counts, is_any_missing=is_any_missing)


def spoil(files: ForgetfulFiles, file: int) -> None:
    files.pwritev(file, [b"\xff" * 512], 0)


def test_the_generation_of_its_entries_is_its_own(
    written: tuple[ForgetfulFiles, int, int, bool],
) -> None:
    files, file, sequence, durable = written
    spoil(files, file)
    assert found_in(files, file, lambda _: True) == (sequence, durable)
    assert found_in(files, file, {sequence}.__contains__) == (sequence, durable)


def test_what_does_not_count_is_none(
    written: tuple[ForgetfulFiles, int, int, bool],
) -> None:
    files, file, sequence, _ = written
    spoil(files, file)
    assert found_in(files, file, {sequence + 2}.__contains__) == (0, False)


def test_a_file_that_says_whose_it_is_is_not_looked_through(
    written: tuple[ForgetfulFiles, int, int, bool],
) -> None:
    files, file, _, _ = written
    assert found_in(files, file, lambda _: True) == (0, False)


def test_a_file_of_zeros_or_of_a_header_alone_holds_nothing(
    written: tuple[ForgetfulFiles, int, int, bool],
) -> None:
    files, file, _, _ = written
    size = files.size(file)
    files.pwritev(file, [bytes(size)], 0)
    assert found_in(files, file, lambda _: True) == (0, False)
    short = files.create(next(iter(files.names)).with_name("short"))
    files.pwritev(short, [b"\xff" * HEADER_BLOCK_BYTES], 0)
    assert found_in(files, short, lambda _: True) == (0, False)


@pytest.mark.parametrize("is_any_missing", [False, True])
@pytest.mark.parametrize("named", [0, 2])
def test_one_that_looks_like_a_spare_is_looked_through_if_a_segment_is_missing(
    named: int, *, is_any_missing: bool
) -> None:
    """More than a sector may be lost, or the last write of the first one alone."""
    files, file, sequence = three_groups()
    head = pack_identity(Identity(named, files.size(file), 1)) if named else bytes(8192)
    files.pwritev(file, [head], 0)
    counts = {sequence}.__contains__
    found = found_in(files, file, counts, is_any_missing=is_any_missing)
    assert found == ((sequence, True) if is_any_missing else (0, False))


def test_pages_that_cannot_be_read_are_no_zeros() -> None:
    files, file, sequence = three_groups()
    files.pwritev(file, [bytes(8192)], 0)
    assert found_in(files, file, lambda _: True) == (0, False)
    read = files.pread

    def pread(file: int, length: int, position: int) -> bytes:
        if position < 8192:
            raise OSError(errno.EIO, "Input/output error")
        return read(file, length, position)

    files.pread = pread  # type: ignore[method-assign]
    assert found_in(files, file, lambda _: True) == (sequence, True)


def three_groups() -> tuple[ForgetfulFiles, int, int]:
    """The files, an open one with three groups of 3000 bytes, and its segment."""
    driver = Driver(ForgetfulFiles())
    for _ in range(3):
        driver.finish([driver.append(size=3000)])
    (info,) = driver.wal.segments()
    driver.close()
    left = driver.files.after_kill()
    return left, left.open(info.path), info.sequence
