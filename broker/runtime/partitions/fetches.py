"""A fetch that waits: until there are enough bytes, an error, or no time left.

The problem: a consumer at the end of the log asks again and again, thousands of them,
and each append could be what they wait for. The idea: count the bytes that a fetch
found when it was parked, and the bytes that each of its partitions has ever committed.
A partition that grew adds its difference; no index is searched again, and no other of
its partitions is looked at. The answer of a fetch of thousands of partitions is made in
several turns of the loop.

Rules: Kafka's ``DelayedFetch``: complete when ``min_bytes`` are there, when a partition
is gone or its log start passed the offset, or when time runs out.
"""

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Hashable,
    Iterable,
    Sequence,
)
from typing import Any

from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.fetch import FetchResponse
from broker.runtime.budget import Budget, Reservation
from broker.runtime.partitions.partition import Partition
from broker.runtime.partitions.reads import (
    TURN_PLACES,
    Place,
    Reader,
    Reading,
    Steps,
    to_its_end,
)
from broker.runtime.process.long_work import LongWork, work_of_request
from broker.timing.delayed import DelayedOperation, DelayedOperations

Answer = Callable[[], Generator[None, None, FetchResponse]]
"""Makes the response; yields after each ``TURN_PLACES`` partitions."""

Fill = Callable[[], Generator[None, None, None]]
"""Finds the places; yields after each ``TURN_PLACES``."""

Convert = Callable[[Reservation, Callable[[], bool]], Coroutine[Any, Any, int]]
"""Turns what was read into what an old client knows, in place, and takes the memory for
it; returns 0, or so many bytes as must be there before anything can be answered. It
ends when the second says that nobody hears the answer any more."""

PLACE_BYTES = 512
"""About what a partition of a fetch that waits keeps in memory."""

SHARED_PART = 4
"""Of the memory of all fetches answers may keep one in so many for what they share."""

PART_OF_ROOM = 4
"""An answer takes one part in so many of what is left, at most. Who comes first would
have all of it, and a peer that is slow is cut off while others wait: no answer may be
so large that its link takes longer for it than they are let wait."""

CUT_BYTES_MIN = 1 << 20
"""No answer is cut to less than this when memory is short; it waits instead."""


REFUSALS_MAX = 8  # a fetch that waited for memory so often is first


def part_of_room(memory: Budget, held: int = 0) -> int:
    """What an answer may take that holds some bytes already."""
    return max((memory.room + held) // PART_OF_ROOM, CUT_BYTES_MIN)


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


class FetchFuture(asyncio.Future[FetchResponse]):
    """The response of a fetch that waits or reads; what ``Handler`` says of awaitables.

    ``reservation``: the memory that the response takes until it has been sent.
    """

    def __init__(self, fetch: "Fetch", retained_bytes: int) -> None:
        super().__init__()
        self.retained_bytes = retained_bytes
        self.reservation: Reservation | None = None
        self._fetch = fetch

    def cut_short(self) -> None:
        """Complete the fetch with what is there now."""
        self._fetch.cut_short()

    def abandon(self) -> None:
        """Nobody hears the answer: wait no more, and give back its memory."""
        self._fetch.abandon()
        if self.reservation is not None:
            self.reservation.release()
        self.cancel()


class Fetch(DelayedOperation):
    """The places of one fetch; ``answer`` makes the response once they are filled.

    What must be read into memory is first reserved in ``memory``. The answer is cut to
    a part of what is left there, and waits when even a small one does not fit.
    So it is with what is converted, whose size is known when that was done: if nothing
    of it fits, all is given back, and it is read again when so much is there.
    """

    __slots__ = (
        "_answer", "_arrival", "_before", "_bytes_max", "_convert", "_count",
        "_fill_places", "_found", "_future", "_is_hurried", "_max_wait_ms", "_memory",
        "_min_bytes", "_places", "_purgatory", "_reader", "_refusals", "_task",
        "_unwaited", "_wanted", "_work",
    )  # fmt: skip

    def __init__(
        self,
        places: Sequence[Place],
        reader: Reader,
        memory: Budget,
        *,
        min_bytes: int,
        bytes_max: int,
        answer: Answer,
        count: int,
        fill: Fill,
        convert: Convert | None = None,
    ) -> None:
        """``fill`` puts the ``count`` places that were asked for into ``places``.

        With ``convert`` what was read is not what is sent.
        """
        super().__init__()
        self._places = places
        self._count = count
        self._fill_places = fill
        self._is_hurried = False
        self._reader = reader
        self._memory = memory
        self._min_bytes = min(min_bytes, bytes_max)
        self._bytes_max = bytes_max
        self._answer = answer
        self._convert = convert
        self._future: FetchFuture | None = None
        self._task: asyncio.Task[None] | None = None
        self._purgatory: DelayedOperations | None = None
        self._unwaited: DelayedOperations | None = None
        """Where it would wait, as long as it has not."""
        self._max_wait_ms = 0
        self._arrival = 0
        """What `Budget.wait` returned last."""
        self._refusals = 0
        self._found = 0
        self._work: LongWork | None = None
        """That of its request; None: it waited, and what it does then begins anew."""
        self._wanted = 0
        """Bytes that what was read takes once it is converted, as far as is known."""
        self._before: dict[Hashable, tuple[Partition, int, int, bool]] = {}
        """Of each partition: itself, the offset, its mark, whether only what is
        committed is read."""

    def run(
        self, purgatory: DelayedOperations, max_wait_ms: int
    ) -> FetchResponse | Awaitable[FetchResponse]:
        """The response, now if it can be given now."""
        self._unwaited, self._max_wait_ms = purgatory, max_wait_ms
        if self._count > TURN_PLACES:
            future = self._future = self._later()
            self._work = work_of_request()
            self._go_on(self._begin_in_turns())
            return future
        for _ in self._fill_places():
            raise AssertionError("it has more places than it said")
        if max_wait_ms <= 0 or self._is_enough_now():
            reading = to_its_end(self._plan(self._bytes_max))
            if reading is None and self._convert is None:
                return to_its_end(self._answer())
            future = self._future = self._later()
            if reading is None:
                self._finish(None)
            else:
                to_its_end(self._reserve(reading))
            return future
        future = self._future = self._later()
        self._wait()
        return future

    async def _begin_in_turns(self) -> None:
        """Find the places, look at them, then read or wait, a piece in each turn."""
        enough, work = self._max_wait_ms <= 0, self._long_work()
        await work.others_first()
        for _ in self._fill_places():
            await work.others_first()
            if self._future is None:
                return
        for first in range(0, 0 if enough else self._count, TURN_PLACES):
            await work.others_first()
            if self._future is None:
                return
            enough = self._look_at(self._places[first : first + TURN_PLACES])
            if enough:
                break
        await work.others_first()
        if self._future is None:
            return
        if enough or self._is_hurried:
            self._read()
        else:
            self._wait()

    def _wait(self) -> None:
        """Be parked, once and for all."""
        assert self._unwaited is not None
        self._purgatory, self._unwaited = self._unwaited, None
        self._work, self._refusals = None, 0
        self._purgatory.watch(self, self._keys(), self._max_wait_ms)

    def _long_work(self) -> LongWork:
        """All of it that takes some turns is one, from when it did not wait."""
        work = self._work = self._work or LongWork()
        return work

    def _keys(self) -> Iterable[Hashable]:
        """What it waits for; looked at when it was looked whether it must wait."""
        return self._before

    def abandon(self) -> None:
        """Its connection is lost: it is not completed. A read under way goes on."""
        self._future = None
        self._memory.forget(self._arrival)
        self._memory.step_back(self)
        if self._purgatory is not None:
            self._purgatory.drop(self)

    def cut_short(self) -> None:
        """Answer now with what is there, if it waits or is going to."""
        self._is_hurried = True
        if self._purgatory is not None:
            self._purgatory.cut_short(self)

    def _later(self) -> FetchFuture:
        return FetchFuture(self, PLACE_BYTES * max(self._count, 1))

    def _is_enough_now(self) -> bool:
        """Nothing to wait for, or enough: ``_look_at``."""
        return not self._places or self._look_at(self._places)

    def _look_at(self, places: Sequence[Place]) -> bool:
        """Whether there is an error, or enough bytes; and what to compare with."""
        for place in places:
            if place.partition is None or place.error is not None:
                return True
            partition, committed = place.partition, place.committed
            self._found += self._reader.available(partition, place.offset, committed)
            key, offset = partition.key, place.offset
            if key in self._before:
                offset = min(offset, self._before[key][1])
            mark = partition.mark(committed=committed)
            self._before[key] = partition, offset, mark, committed
        return self._found >= self._min_bytes

    def satisfied(self) -> bool:
        if self._found >= self._min_bytes:
            return True
        moved = [
            key
            for key, (partition, offset, mark, committed) in self._before.items()
            if partition.mark(committed=committed) != mark
            or partition.deleted
            or offset < partition.log.offsets.start
        ]
        return any(map(self.satisfied_by, moved))

    def satisfied_by(self, key: Hashable) -> bool:
        partition, offset, mark, committed = self._before[key]
        if partition.deleted or offset < partition.log_start:
            return True
        now = partition.mark(committed=committed)
        if now != mark:
            self._found += partition.grown(mark, committed=committed)
            self._before[key] = partition, offset, now, committed
        return self._found >= self._min_bytes

    def complete(self, *, expired: bool) -> None:
        self._read()

    def _read(self) -> None:
        """Answer with what is in memory, or when the rest has been read."""
        if self._future is None or self._future.done():
            self._memory.step_back(self)
            return
        steps = self._plan_and_reserve()
        if self._count > TURN_PLACES:
            self._go_on(self._read_in_turns(steps))
            return
        try:
            to_its_end(steps)
        except Exception as error:  # noqa: BLE001 - not to who gave memory back
            self._fail(error)

    async def _read_in_turns(self, steps: Steps[None]) -> None:
        work = self._long_work()
        for _ in steps:
            await work.others_first()
            if self._future is None:
                steps.close()
                return

    def _plan_and_reserve(self) -> Steps[None]:
        reading = yield from self._plan(self._bytes_max)
        if reading is None and not self._wanted:
            self._finish(None)
        else:
            yield from self._reserve(reading)

    def _finish(self, reservation: Reservation | None) -> None:
        """Make the response and hand it over, now or in some turns of the loop."""
        if self._convert is not None or len(self._places) > TURN_PLACES:
            self._go_on(self._finish_in_turns(reservation))
        else:
            self._hand_over(to_its_end(self._answer()), reservation)

    async def _finish_in_turns(self, reservation: Reservation | None) -> None:
        try:
            if self._convert is not None:
                reservation = reservation or Reservation(self._memory, 0, self)
                self._wanted = await self._convert(reservation, self._is_heard)
                if self._wanted:
                    self._wait_again(reservation)
                    return
                if await self._is_to_wait():
                    reservation.release()
                    self._memory.step_back(self)
                    self._wait()
                    return
                reservation.resize(sum(place.size for place in self._places))
            steps, work = self._answer(), self._long_work()
            while self._future is not None:
                try:
                    next(steps)
                except StopIteration as end:
                    self._hand_over(end.value, reservation)
                    return
                await work.others_first()
        except Exception:
            if reservation is not None:
                reservation.release()
            raise
        if reservation is not None:
            reservation.release()

    def _is_heard(self) -> bool:
        return self._future is not None

    async def _is_to_wait(self) -> bool:
        """Whether nothing is left of what was read, and nothing stands behind it: who
        has not waited yet waits then, as one that found nothing at once."""
        if self._unwaited is None or self._max_wait_ms <= 0:
            return False
        if any(place.buffers or place.error is not None for place in self._places):
            return False
        self._found = 0
        self._before.clear()
        work = self._long_work()
        for first in range(0, len(self._places), TURN_PLACES):
            await work.others_first()
            if self._look_at(self._places[first : first + TURN_PLACES]):
                return False
        return bool(self._places) and self._is_heard() and not self._is_hurried

    def _wait_again(self, reservation: Reservation) -> None:
        """Read again when there is room for what it becomes, if anybody hears it."""
        if self._is_heard():
            self._wait_for(self._wanted)
        reservation.release()

    def _go_on(self, turns: Reading) -> None:
        """Run what takes some turns of the loop; a fault in it fails the answer."""

        async def run() -> None:
            try:
                await turns
            except Exception as error:  # noqa: BLE001 - as in `_fill`
                self._fail(error)

        self._task = asyncio.ensure_future(run())

    def _fail(self, error: Exception) -> None:
        """Tell whoever awaits the answer, and break the circle with them."""
        self._memory.step_back(self)
        future, self._future = self._future, None
        if future is not None and not future.done():
            future.set_exception(error)

    def _hand_over(
        self, response: FetchResponse, reservation: Reservation | None
    ) -> None:
        """Complete the future, and break the circle with who awaits it."""
        future, self._future = self._future, None
        self._memory.step_back(self)
        if future is not None and not future.done():
            future.reservation = reservation
            future.set_result(response)
        elif reservation is not None:
            reservation.release()

    def _plan(self, bytes_max: int) -> Steps[Reading | None]:
        """Take what is in memory; the reading of the rest, None if there is none."""
        for count, place in enumerate(self._places):
            if count and count % TURN_PLACES == 0:
                yield
            place.clear()
            if place.error is None and place.partition is not None:
                _check_again(place, place.partition)
        return (yield from self._reader.read_in_turns(self._places, bytes_max))

    def _reserve(self, reading: Reading | None) -> Steps[None]:
        """Start the reading when there is memory for it."""
        memory, needed = self._memory, self._needed_bytes()
        if needed > (fits := part_of_room(memory)):
            if reading is not None:
                reading.close()
            cut = yield from self._plan(min(fits, self._bytes_max))
            if cut is None and not self._wanted:  # what is in memory fills it
                self._finish(None)
                return
            reading, needed = cut, self._needed_bytes()
        if memory.try_take(needed, self):
            reservation = Reservation(memory, needed, self)
            if reading is None:
                self._finish(reservation)
                return
            self._task = asyncio.ensure_future(self._fill(reading, reservation))
        else:
            if reading is not None:
                reading.close()
            self._wait_for(needed)

    def _wait_for(self, needed: int) -> None:
        """Hold nothing, and read again when there is so much. Who looks in turns finds
        what others left, and is behind them again: so it is first after some times."""
        for place in self._places:
            place.clear()
        self._refusals += 1
        if self._refusals >= REFUSALS_MAX:
            self._memory.put_first(self)
        self._arrival = self._memory.wait(self._read, needed, self)

    def _needed_bytes(self) -> int:
        later = sum(place.later_bytes for place in self._places)
        return max(later, self._wanted)

    async def _retained_bytes(self, reservation: Reservation) -> int:
        """Bytes that stay in memory for what was read. While others have taken much,
        that is not kept for the sake of a part of it, but the part is copied."""
        memory, later = self._memory, [one for one in self._places if one.is_later]
        retained = sum(place.retained_bytes for place in later)
        taken = memory.taken - reservation.bytes
        if taken + retained <= memory.bytes_max // SHARED_PART:
            return retained
        loop = asyncio.get_running_loop()
        for place in later:
            if place.retained_bytes > place.size:
                await loop.run_in_executor(None, place.detach)
        return sum(place.retained_bytes for place in later)

    async def _fill(self, reading: Reading, reservation: Reservation) -> None:
        try:
            await reading
            retained = await self._retained_bytes(reservation)
            reservation.resize(max(retained, self._wanted))
            self._finish(reservation)
        except Exception as error:  # noqa: BLE001 - whoever awaits the answer is given it
            reservation.release()
            self._fail(error)


def _check_again(place: Place, partition: Partition) -> None:
    """Look at the places again: things may have changed meanwhile."""
    try:
        if partition.deleted:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted"
            )
        check_offset(partition, place.offset)
    except KafkaError as error:
        place.error = error
