"""The writer's thread: what waits becomes groups, and each is answered in order."""

from collections.abc import Callable

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.storage.active_segment import ActiveSegment
from broker.storage.appender import SegmentAppender
from broker.storage.committed_position import CommittedPositionFile
from broker.storage.entry import Append
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.pool import NoSlot
from broker.storage.segment import Slot, slot_name
from broker.storage.writer import COMPLETED_A_TURN, GROUP_BYTES_MAX, Writer
from tests.broker.storage.driver import WAL, an_append, batch
from tests.support.clock import ManualClock
from tests.support.files import ForgetfulFiles

SEGMENT_BYTES = 2 * GROUP_BYTES_MAX


class Bench:
    """A writer on two files. What it hands to the loop waits until `run`, at which
    the writer stops."""

    def __init__(self, inspect: Callable[[Append], None] | None = None) -> None:
        self.files, self.slots = ForgetfulFiles(), 2
        self.soon: list[Callable[[], None]] = []
        self.finished: list[Append] = []
        appender = SegmentAppender(
            CommittedPositionFile(self.files, WAL),
            ManualClock(),
            next_sequence=1,
            begin=self._begin,
            sealed=lambda _: None,
        )
        self.writer = Writer(
            appender,
            segment_bytes=SEGMENT_BYTES,
            call_soon=self.soon.append,
            inspect=inspect,
        )

    def _begin(self, sequence: int) -> ActiveSegment:
        if not self.slots:
            raise NoSlot("none is left")
        self.slots -= 1
        path = WAL / slot_name(self.slots)
        file = self.files.create(path)
        self.files.allocate(file, SEGMENT_BYTES)
        slot = Slot(self.slots, path, file, SEGMENT_BYTES, SEGMENT_BYTES)
        return ActiveSegment(self.files, slot, sequence, 0)

    def put(self, *batches: bytes) -> list[Append]:
        """Appends that wait for the writer."""
        made = [an_append(one, done=self.finished.append) for one in batches]
        for one in made:
            self.writer.append(one)
        return made

    def run(self) -> None:
        """All that waits comes to its end, on the thread and then on the loop."""
        self.writer.start()
        self.writer.stop()
        while self.soon:
            self.soon.pop(0)()


def errors(appends: list[Append]) -> list[ErrorCode | None]:
    return [None if one.error is None else one.error.code for one in appends]


def test_all_that_waits_is_one_sync_and_one_call_on_the_loop() -> None:
    bench = Bench()
    appends = bench.put(*(batch(n) for n in range(COMPLETED_A_TURN + 5)))
    bench.writer.start()
    bench.writer.stop()
    assert (len(bench.soon), bench.finished) == (1, [])
    assert bench.files.count("fdatasync") == 1
    bench.soon.pop()()
    assert bench.finished == appends
    assert errors(appends) == [None] * len(appends)
    assert [one.location for one in appends] == sorted(one.location for one in appends)


def test_nobody_waits_for_a_huge_write() -> None:
    bench = Bench()
    size = GROUP_BYTES_MAX // 2
    appends = bench.put(*(batch(n, size=size) for n in range(3)))
    bench.run()
    assert bench.finished == appends
    assert bench.files.count("fdatasync") == 2
    assert errors(appends) == [None] * 3


def test_an_action_comes_behind_what_waited_before_it() -> None:
    bench = Bench()
    bench.put(batch(0))
    seen: list[int] = []
    bench.writer.call(lambda: seen.append(bench.files.count("fdatasync")))
    bench.put(batch(1))
    bench.run()
    assert seen == [1]
    assert bench.files.count("fdatasync") == 2


def test_what_is_refused_stops_nobody_else() -> None:
    def refuse(append: Append) -> None:
        if append.base_offset == 1:
            raise KafkaError(ErrorCode.INVALID_RECORD, "rotten")

    bench = Bench(refuse)
    too_large = batch(3, size=SEGMENT_BYTES - HEADER_BLOCK_BYTES)
    appends = bench.put(batch(0), batch(1), batch(2), too_large)
    bench.run()
    assert bench.finished == appends
    assert errors(appends) == [
        None, ErrorCode.INVALID_RECORD, None, ErrorCode.MESSAGE_TOO_LARGE,
    ]  # fmt: skip
    assert bench.writer.failed is None


def test_without_a_segment_file_batches_are_refused_and_the_log_goes_on() -> None:
    bench = Bench()
    bench.slots = 0
    appends = bench.put(batch(0))
    bench.run()
    assert errors(appends) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert bench.writer.failed is None


@pytest.mark.parametrize("fault", [OSError("EIO"), ZeroDivisionError()])
def test_a_fault_refuses_all_that_waits_and_all_that_comes(fault: Exception) -> None:
    bench = Bench()

    def fail() -> None:
        raise fault

    written = bench.put(batch(0))
    bench.writer.call(fail)
    refused = bench.put(batch(1), batch(2))
    bench.run()
    assert errors(written) == [None]
    assert errors(refused) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert bench.writer.failed is not None
    assert bench.finished == written + refused
