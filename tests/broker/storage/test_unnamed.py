"""A file whose first sector is damaged is known by its entries."""

import pytest

from broker.storage.layout import HEADER_BLOCK_BYTES
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


def spoil(files: ForgetfulFiles, file: int) -> None:
    files.pwritev(file, [b"\xff" * 512], 0)


def test_the_generation_of_its_entries_is_its_own(
    written: tuple[ForgetfulFiles, int, int, bool],
) -> None:
    files, file, sequence, durable = written
    spoil(files, file)
    assert find_unnamed(files, file, lambda _: True) == (sequence, durable)
    assert find_unnamed(files, file, {sequence}.__contains__) == (sequence, durable)


def test_what_does_not_count_is_none(
    written: tuple[ForgetfulFiles, int, int, bool],
) -> None:
    files, file, sequence, _ = written
    spoil(files, file)
    assert find_unnamed(files, file, {sequence + 2}.__contains__) == (0, False)


def test_a_file_that_says_whose_it_is_is_not_looked_through(
    written: tuple[ForgetfulFiles, int, int, bool],
) -> None:
    files, file, _, _ = written
    assert find_unnamed(files, file, lambda _: True) == (0, False)


def test_a_file_of_zeros_or_of_a_header_alone_holds_nothing(
    written: tuple[ForgetfulFiles, int, int, bool],
) -> None:
    files, file, _, _ = written
    size = files.size(file)
    files.pwritev(file, [bytes(size)], 0)
    assert find_unnamed(files, file, lambda _: True) == (0, False)
    short = files.create(next(iter(files.names)).with_name("short"))
    files.pwritev(short, [b"\xff" * HEADER_BLOCK_BYTES], 0)
    assert find_unnamed(files, short, lambda _: True) == (0, False)
