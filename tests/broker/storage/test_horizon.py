"""The horizon: what was written last, or nothing."""

from broker.storage.horizon import NAME, Horizon, HorizonFile, read_horizon
from tests.broker.storage.driver import WAL
from tests.support.files import ForgetfulFiles


def test_a_reader_sees_what_was_written_last() -> None:
    files = ForgetfulFiles()
    assert read_horizon(files, WAL) is None
    horizon = HorizonFile(files, WAL)
    assert read_horizon(files, WAL) is None
    horizon.write(3, 4096)
    horizon.write(3, 9000)
    assert read_horizon(files, WAL) == Horizon(3, 9000)
    horizon.close()
    HorizonFile(files, WAL).write(4, 4096)
    assert read_horizon(files, WAL) == Horizon(4, 4096)


def test_any_flipped_bit_is_noticed() -> None:
    files = ForgetfulFiles()
    HorizonFile(files, WAL).write(3, 4096)
    data = files.names[WAL / NAME].data
    for bit in range(len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        assert read_horizon(files, WAL) is None
        data[bit // 8] ^= 1 << bit % 8
