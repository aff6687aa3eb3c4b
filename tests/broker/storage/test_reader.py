"""Another process's view: nothing before it is durable, nothing that was let go."""

from pathlib import Path

import pytest

from broker.protocol.errors import KafkaError
from broker.storage.entry import Append, sequence_of
from broker.storage.files import PosixFiles
from broker.storage.reader import SegmentReader
from broker.storage.segment import StaleSegment
from tests.broker.storage.driver import WAL, Driver
from tests.support.files import ForgetfulFiles


@pytest.fixture
def files() -> ForgetfulFiles:
    return ForgetfulFiles()


def seen(reader: SegmentReader) -> dict[tuple[int, int], list[tuple[int, bytes]]]:
    found: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
    for info in reader.live():
        for key, columns in reader.columns(info.sequence).items():
            found.setdefault(key, []).extend(
                (int(base), reader.read(int(location), int(length)))
                for base, location, length in zip(
                    columns.base, columns.location, columns.length, strict=True
                )
            )
    return found


def expected(appends: list[Append]) -> dict[tuple[int, int], list[tuple[int, bytes]]]:
    found: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
    for one in appends:
        key = (one.topic_number, one.partition)
        found.setdefault(key, []).append((one.base_offset, bytes(one.batch)))
    return found


def test_a_reader_follows_the_writer_over_all_segments(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    reader = SegmentReader(files, WAL)
    appends: list[Append] = []
    for round_number in range(12):
        appends += [
            driver.append(size=61 + 700 * (i % 3), partition=i % 2)
            for i in range(round_number)
        ]
        driver.finish(appends)
        assert seen(reader) == expected(appends)
    assert len(reader.live()) > 2
    assert reader.live() == driver.wal.segments()
    assert seen(SegmentReader(files, WAL)) == expected(appends)
    assert reader.damage == []
    driver.close()


def test_what_is_written_and_not_synced_is_not_seen(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    durable = driver.append()
    driver.finish([durable])
    driver.until(lambda: not driver.wal._pool.wants())
    files.fail("fdatasync", OSError(5, "the disk is dying"))
    driver.finish([driver.append()])
    assert seen(SegmentReader(files, WAL)) == expected([durable])
    driver.close()


def test_a_released_segment_is_not_live_and_its_old_plan_is_stale(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files, spare_segments=0)
    old = driver.append(size=500)
    driver.finish([old])
    driver.wal.roll()
    driver.until(lambda: len(driver.sealed) == 1)
    reader = SegmentReader(files, WAL)
    assert [info.sequence for info in reader.live()] == [sequence_of(old.location)]
    driver.wal.release(sequence_of(old.location))
    driver.wal.checkpoint(b"")
    driver.until(lambda: not driver.wal._segments)
    driver.finish([driver.append(size=500)])
    with pytest.raises(StaleSegment):
        reader.read(old.location, 500)
    assert sequence_of(old.location) not in [info.sequence for info in reader.live()]
    driver.close()


def test_a_reader_sees_the_same_after_a_kill_and_a_restart(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files)
    appends = [driver.append(size=900) for _ in range(30)]
    driver.finish(appends)
    killed = files.after_kill()
    reader = SegmentReader(killed, WAL)
    assert seen(reader) == expected(appends)
    again = Driver(killed)
    assert seen(reader) == expected(appends)
    again.close()
    driver.close()


def test_damage_is_reported_and_not_served(tmp_path: Path) -> None:
    driver = Driver(PosixFiles(), tmp_path)
    appends = [driver.append(size=500) for _ in range(3)]
    for one in appends:
        driver.finish([one])
    (info,) = driver.wal.segments()
    with info.path.open("r+b") as file:
        file.seek(4096 + 548 + 100)
        file.write(b"damage")
    reader = SegmentReader(PosixFiles(), tmp_path)
    assert seen(reader) == expected([appends[0], appends[2]])
    assert len(reader.damage) == 1
    with pytest.raises(KafkaError):
        reader.read(appends[1].location, 500)
    driver.close()


def test_an_empty_directory_has_no_segments(files: ForgetfulFiles) -> None:
    assert SegmentReader(files, WAL).live() == []
