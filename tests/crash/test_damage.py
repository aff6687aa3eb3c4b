"""A bit of an acknowledged batch flips on the disk: it is told, and never served.

What lies around it goes on being served, to a client that verifies nothing itself.
"""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, TopicPartition

from broker.storage.entry import ENTRY_HEADER_BYTES, position_of
from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs.check import check_data_directory
from tests.crash.workload import Found, Lost, a_consumer, running, wait_for
from tests.support.patience import Patience

HIT = 1  # the partition
SEALED = ("wal.segment_bytes=1Mi",)
ACTIVE = ("wal.segment_bytes=64Mi",)

pytestmark = pytest.mark.crash


class Life:
    """Produce, die, lose a bit, start again."""

    def __init__(self, house, *, sealed: bool, in_header: bool = False) -> None:
        self.house = house.start()
        wal = house.data_dir / "wal"
        # small batches however slow the broker is: many in each segment
        load = house.load("p", value_bytes=800, pause_s=0.01, batch_records=10)
        with running(load):
            wait_for(lambda: len(batches(wal, sealed)[1]) > 6)
        self.acknowledged = load.acknowledged
        house.broker.kill()
        path, position, length, self.hit = a_batch(wal, sealed)
        assert {(HIT, offset) for offset in self.hit} <= self.acknowledged.keys()
        flip(path, position - ENTRY_HEADER_BYTES + 24 if in_header else position + 100)
        assert length > 200
        house.broker.start()

    def judge(self) -> None:
        """All but what was hit is there as it was, and that is not there at all."""
        found = self.read()
        expected = {
            (partition, offset): value
            for (partition, offset), value in self.acknowledged.items()
            if partition != HIT or offset not in self.hit
        }
        wrong = {
            key
            for key in expected.keys() | found.keys()
            if found.get(key) != expected.get(key)
        }
        if wrong:
            raise Lost(f"{len(wrong)} records are not as they were, as {min(wrong)}")
        problem, *lost = check_data_directory(self.house.data_dir).problems
        name = f"topic 1 partition {HIT} offset {self.hit.start}"
        assert name in problem or "were durable and are damaged" in problem
        offsets = f"t-{HIT}: offsets {self.hit.start} to {self.hit.stop - 1} "
        assert all(each.startswith(offsets) for each in lost)
        told = self.house.broker.tail()
        assert name in told or "were durable and are damaged" in told

    def read(self) -> Found:
        """What a client gets that goes on behind what is refused."""
        bootstrap, partitions = self.house.broker.bootstrap, self.house.partitions
        consumer = a_consumer(bootstrap, "t", partitions, check_crcs=False)
        waiting, found = set(range(partitions)), {}
        patience = Patience()
        while waiting:
            assert patience.lasts((len(found), len(waiting)))
            for message in consumer.consume(1000, timeout=0.05):
                error = message.error()
                if error is None:
                    found[message.partition(), message.offset()] = message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition())
                else:
                    assert error.code() == KafkaError.INVALID_MSG
                    assert message.partition() == HIT
                    behind = TopicPartition("t", HIT, self.hit.stop)
                    consumer.seek(behind)
        consumer.close()
        return found


def batches(wal: Path, sealed: bool) -> tuple[Path, list[tuple[int, int, int, int]]]:
    """A segment's file, and of its batches in the partition: first and last offset,
    position, length."""
    reader = LocalSegmentStore(PosixFiles(), wal)
    segments = [info for info in reader.live() if info.sealed is sealed]
    if not segments:
        return wal, []
    info = max(segments, key=lambda one: one.bytes)
    for key, found in reader.columns(info.sequence).items():
        if key[1] == HIT:
            positions = map(position_of, found.location.tolist())
            parts = (found.base.tolist(), found.last.tolist(), positions)
            return info.path, list(zip(*parts, found.length.tolist(), strict=True))
    return info.path, []


def a_batch(wal: Path, sealed: bool) -> tuple[Path, int, int, range]:
    """One that is far from both ends: file, position, length, offsets."""
    path, found = batches(wal, sealed)
    first, last, position, length = found[len(found) // 2]
    return path, position, length, range(first, last + 1)


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


@pytest.mark.shared_out("failing disks", 6)
def test_in_a_sealed_segment(build):
    Life(build(settings=SEALED), sealed=True).judge()


@pytest.mark.shared_out("failing disks", 6)
def test_in_what_recovery_reads_again(build):
    Life(build(settings=ACTIVE), sealed=False).judge()


@pytest.mark.shared_out("failing disks", 6)
def test_in_the_header_of_an_entry(build):
    Life(build(settings=ACTIVE), sealed=False, in_header=True).judge()


@pytest.mark.shared_out("planted defects", 6)
def test_it_is_noticed_that_nothing_is_verified(build):
    life = Life(build(settings=ACTIVE, altered="unverified"), sealed=False)
    with pytest.raises(Lost, match="not as they were"):
        life.judge()
