"""A fetch that waits: until there are enough bytes, an error, or no time left.

The problem: a consumer at the end of the log asks again and again, thousands of them,
and each append could be what they wait for. The idea: count the bytes that a fetch
found when it was parked, and how many bytes each of its partitions has settled in all.
Whether it has enough now is then a sum of differences; no index is searched again.

Rules: Kafka's ``DelayedFetch``: complete when ``min_bytes`` are there, when a partition
is gone or its log start passed the offset, or when time runs out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.fetch import FetchResponse
from broker.runtime.partition import Partition
from broker.runtime.reads import Place, Reader
from broker.timing.delayed import DelayedOperation, DelayedOperations

Answer = Callable[[], FetchResponse]


def check_offset(partition: Partition, offset: int) -> None:
    """Raise OFFSET_OUT_OF_RANGE unless ``offset`` is from the log start to the end.

    The end is that of what has been given away: a consumer that is there waits.
    """
    offsets = partition.log.offsets
    if not offsets.start <= offset <= offsets.next:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not within [{offsets.start}, {offsets.next}]",
        )


class Fetch(DelayedOperation):
    """The places of one fetch; ``answer`` makes the response once they are filled."""

    __slots__ = (
        "_answer", "_before", "_bytes_max", "_found", "_future", "_min_bytes",
        "_places", "_reader", "_task",
    )  # fmt: skip

    def __init__(
        self,
        places: Sequence[Place],
        reader: Reader,
        *,
        min_bytes: int,
        bytes_max: int,
        answer: Answer,
    ) -> None:
        super().__init__()
        self._places = places
        self._reader = reader
        self._min_bytes = min(min_bytes, bytes_max)
        self._bytes_max = bytes_max
        self._answer = answer
        self._future: asyncio.Future[FetchResponse] | None = None
        self._task: asyncio.Task[FetchResponse] | None = None
        self._found = 0
        self._before: list[tuple[Partition, int, int]] = []

    def run(
        self, waits: DelayedOperations, max_wait_ms: int
    ) -> FetchResponse | Awaitable[FetchResponse]:
        """The response, now if it can be given now."""
        if max_wait_ms <= 0 or self._is_enough_now():
            return self._read()
        self._future = asyncio.get_running_loop().create_future()
        keys = [partition.key for partition, _, _ in self._before]
        waits.watch(self, keys, max_wait_ms)
        return self._future

    def _is_enough_now(self) -> bool:
        """The first look: any error, or enough bytes; and what to compare with."""
        if not self._places:
            return True
        for place in self._places:
            if place.partition is None or place.error is not None:
                return True
            partition = place.partition
            self._found += self._reader.available(partition, place.offset)
            self._before.append((partition, place.offset, partition.bytes_settled))
        return self._found >= self._min_bytes

    def satisfied(self) -> bool:
        found = self._found
        for partition, offset, settled in self._before:
            if partition.deleted or offset < partition.log_start:
                return True
            found += partition.bytes_settled - settled
        return found >= self._min_bytes

    def complete(self, *, expired: bool) -> None:
        future = self._future
        assert future is not None
        if future.done():
            return
        answer = self._read()
        if isinstance(answer, FetchResponse):
            future.set_result(answer)
            return
        self._task = asyncio.ensure_future(_awaited(answer))
        self._task.add_done_callback(self._hand_over)

    def _hand_over(self, task: asyncio.Task[FetchResponse]) -> None:
        future = self._future
        assert future is not None
        if future.done() or task.cancelled():
            future.cancel()
        elif (error := task.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())

    def _read(self) -> FetchResponse | Awaitable[FetchResponse]:
        for place in self._places:
            if place.error is None and place.partition is not None:
                _check_again(place, place.partition)
        reading = self._reader.read(self._places, self._bytes_max)
        return self._answer() if reading is None else self._answer_after(reading)

    async def _answer_after(self, reading: Awaitable[None]) -> FetchResponse:
        await reading
        return self._answer()


async def _awaited(answer: Awaitable[FetchResponse]) -> FetchResponse:
    return await answer


def _check_again(place: Place, partition: Partition) -> None:
    """Things may have changed while the fetch waited."""
    try:
        if partition.deleted:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted"
            )
        check_offset(partition, place.offset)
    except KafkaError as error:
        place.error = error
