"""The committed position: what was written last, or nothing."""

from broker.storage.committed_position import (
    FINISH_ATTEMPTS,
    NAME,
    CommittedPosition,
    CommittedPositionFile,
    read_committed_position,
)
from tests.broker.storage.driver import WAL
from tests.support.files import ForgetfulFiles


def test_a_reader_sees_what_was_written_last() -> None:
    files = ForgetfulFiles()
    assert read_committed_position(files, WAL) is None
    committed_position = CommittedPositionFile(files, WAL)
    assert read_committed_position(files, WAL) is None
    committed_position.write(3, 4096)
    committed_position.write(3, 9000)
    assert read_committed_position(files, WAL) == CommittedPosition(3, 9000)
    committed_position.close()
    CommittedPositionFile(files, WAL).write(4, 4096)
    assert read_committed_position(files, WAL) == CommittedPosition(4, 4096)


def test_any_flipped_bit_is_noticed() -> None:
    files = ForgetfulFiles()
    CommittedPositionFile(files, WAL).write(3, 4096)
    data = files.names[WAL / NAME].data
    for bit in range(len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        assert read_committed_position(files, WAL) is None
        data[bit // 8] ^= 1 << bit % 8


def test_the_end_of_a_segment_that_failed_is_told_from_one_that_goes_on() -> None:
    files = ForgetfulFiles()
    committed_position = CommittedPositionFile(files, WAL)
    committed_position.write(3, 9000)
    committed_position.finish(3, 9000)
    assert read_committed_position(files, WAL) == CommittedPosition(3, 9000, final=True)
    for _ in range(FINISH_ATTEMPTS):
        files.fail("pwritev", OSError(5, "Input/output error"))
    committed_position.finish(3, 4096)
    assert read_committed_position(files, WAL) == CommittedPosition(3, 9000, final=True)


def test_what_was_written_is_told_from_what_was_synced() -> None:
    files = ForgetfulFiles()
    committed_position = CommittedPositionFile(files, WAL)
    for write, final in (
        (committed_position.write, False),
        (committed_position.finish, True),
    ):
        write(3, 9000, synced=False)
        noted = read_committed_position(files, WAL)
        assert noted == CommittedPosition(3, 9000, final, synced=False)
        assert (noted.end(3), noted.durable_end(3), noted.end(4)) == (9000, 0, 0)
        write(3, 9000)
        noted = read_committed_position(files, WAL)
        assert noted == CommittedPosition(3, 9000, final)
        assert (noted.end(3), noted.durable_end(3)) == (9000, 9000)


def test_the_end_is_noted_by_a_disk_that_fails_twice() -> None:
    files = ForgetfulFiles()
    committed_position = CommittedPositionFile(files, WAL)
    committed_position.write(3, 9000)
    files.fail("pwritev", OSError(5, "Input/output error"))
    committed_position.finish(3, 9000)
    assert read_committed_position(files, WAL) == CommittedPosition(3, 9000, final=True)
