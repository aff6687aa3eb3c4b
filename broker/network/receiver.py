"""From bytes as they come to whole frames, without copying them.

The problem. A frame is a length and so many bytes. Most are a hundred bytes, many of
them in one read; some are a megabyte and come in twenty reads; one may claim to be a
hundred megabytes and never come. They should be contiguous where they were received,
an idle connection should hold nothing, and a claim should cost its peer, not us.

The idea. A read goes into the arena that all connections share. Whole frames are cut
where they lie. What is left over is either short, and is put by until the next read;
or it is the beginning of a frame larger than a read, and moves to a block of its own,
in which it is received to its end. Reads there stop 64 KiB behind that end, so that of
the next large frame no more than that is ever moved. Blocks grow with what has really
arrived, 4 MiB at first and doubling then, up to the length that was claimed.

The price. A frame above 64 KiB has its first read copied; one above 4 MiB is copied
once more, in the sum, as its block grows.

Bytes of large frames are taken from a budget before they are received. No I/O here:
``buffer``, ``received``, ``next_frame`` until None, ``rest``, and again.
"""

from struct import Struct

from broker.network.blocks import READ_BYTES, STEP_BYTES, Arena, BlockPool
from broker.protocol.errors import ProtocolError
from broker.runtime.budget import Budget

_LENGTH = Struct(">i")
_KEY = Struct(">h")
FRAME_BYTES_MIN = 8
"""Key, version and correlation id are in every request."""
REFUSALS_MAX = 200
"""So often is a frame passed over by smaller ones while it waits for the budget."""
_LEAST_BYTES = 4 + FRAME_BYTES_MIN
_BEGINNING_BYTES = _LENGTH.size + _KEY.size


class Receiver:
    """The receiving half of a connection."""

    __slots__ = (
        "_alone_bytes_max",
        "_arena",
        "_block",
        "_budget",
        "_end",
        "_frame_bytes_max",
        "_leftover",
        "_pool",
        "_position",
        "_refusals",
        "_reserved",
        "_view",
    )

    def __init__(
        self, arena: Arena, pool: BlockPool, budget: Budget, frame_bytes_max: int
    ) -> None:
        self._arena = arena
        self._pool = pool
        self._budget = budget
        self._frame_bytes_max = frame_bytes_max
        self._alone_bytes_max = min(frame_bytes_max, READ_BYTES - 1)
        self._view: memoryview | None = None
        self._position = 0
        self._end = 0
        self._block: bytearray | None = None
        self._leftover: bytearray | None = None
        self._reserved = 0
        self._refusals = 0

    @property
    def waits_for_more(self) -> bool:
        """Whether there are bytes of a frame that is not whole."""
        return self._end > self._position

    @property
    def wanted(self) -> int:
        """How long the frame is that is on its way, as far as that is known."""
        return self._wanted()

    @property
    def share(self) -> tuple[int, int]:
        """Bytes taken from the budget for a frame, and how many of them have come."""
        return self._reserved, self._end - self._position

    def buffer(self) -> memoryview:
        """Where to receive next; at least one byte long."""
        if self._block is None and self._end - self._position > READ_BYTES:
            self._move(self._end - self._position + READ_BYTES)
        if self._block is None:
            return self._arena.offer(self._left() if self._leftover else None)
        if self._end == len(self._block):
            self._move(min(self._wanted(), 2 * len(self._block)))
        assert self._view is not None
        frame_end = self._position + self._wanted()
        return self._view[self._end : max(frame_end, self._end) + READ_BYTES]

    def received(self, count: int) -> None:
        """Take note of so many bytes that were put into the buffer."""
        if self._block is None:
            ahead = self._end - self._position if self._leftover else 0
            self._leftover = None
            self._view = self._arena.view
            self._position = self._arena.position
            self._end = self._position + ahead
        self._end += count

    def only_frame(
        self, count: int, keys: frozenset[int] | None = None
    ) -> memoryview | None:
        """What so many bytes received into the arena are, if that is one frame.

        As ``received``, ``next_frame`` and ``rest`` together, for the ordinary case: a
        small request that came alone and whole, and is of one of ``keys`` if these are
        given. None: nothing was done. (Where a read filled the arena, the loop reads
        again before anybody else has a turn: such a one does not count as alone.)
        """
        arena = self._arena
        start = arena.position
        if (
            self._view is not None
            or not _LEAST_BYTES <= count <= self._alone_bytes_max
            or _LENGTH.unpack_from(arena.view, start)[0] != count - 4
        ):
            return None
        view = arena.view
        if keys is not None and _KEY.unpack_from(view, start + 4)[0] not in keys:
            return None
        arena.claim(start + count)
        return view[start + 4 : start + count]

    def next_key(self) -> int | None:
        """The API key of the next frame, which stays; None if that is not whole.

        -1 if it is none that ``next_frame`` would return.
        """
        start = self._position + 4
        if self._view is None or start > self._end:
            return None
        (length,) = _LENGTH.unpack_from(self._view, self._position)
        if not FRAME_BYTES_MIN <= length <= self._frame_bytes_max:
            return -1
        if start + length > self._end:
            return None
        key: int = _KEY.unpack_from(self._view, start)[0]
        return key

    def coming_key(self) -> int | None:
        """As ``next_key``, also of a large frame that took no bytes of the budget."""
        key = self.next_key()
        is_to_begin = self._wanted() > READ_BYTES and not self._reserved
        if key is None and is_to_begin and self._view is not None:
            key = _KEY.unpack_from(self._view, self._position + 4)[0]
        return key

    @property
    def next_length(self) -> int:
        """Of the next frame, whose beginning is there."""
        assert self._view is not None
        length: int = _LENGTH.unpack_from(self._view, self._position)[0]
        return length

    def next_frame(self) -> memoryview | None:
        """The next whole frame, without its length; None if it is not whole.

        Raises:
            ProtocolError: the length is none that a request can have.
        """
        start = self._position + 4
        if self._view is None or start > self._end:
            return None
        (length,) = _LENGTH.unpack_from(self._view, self._position)
        if not FRAME_BYTES_MIN <= length <= self._frame_bytes_max:
            raise ProtocolError(_no_request(length))
        if start + length > self._end:
            return None
        self._position = start + length
        if self._block is None and self._leftover is None:
            self._arena.claim(self._position)  # here: no way out can forget it
        if self._reserved:
            self._release()
        return self._view[start : self._position]

    def rest(self, *, begin: bool = True) -> bool:
        """Leave the arena to others. False: wait for the budget, then ask again.

        Without ``begin`` no large frame takes its bytes now, nor keeps others from it.
        """
        if self._view is None:
            return True
        if self._position == self._end:
            self._forget()
            return True
        if not begin:
            self._budget.step_back(self)
        elif not self._reserve():
            self._stash()
            return False
        wanted = self._wanted()
        if not self._reserved:  # nothing of the budget is held, so no block is
            self._stash()
        elif self._block is None or self._position:  # that of the frame before
            self._move(min(wanted, STEP_BYTES))
        return True

    def close(self) -> None:
        """Give back what is held."""
        self._forget()
        self._budget.step_back(self)
        if self._reserved:
            self._release()

    def _wanted(self) -> int:
        """How long the frame at the position is, its length included; while length and
        key are not there, as long as these are."""
        if self._view is None or self._position + _BEGINNING_BYTES > self._end:
            return _BEGINNING_BYTES
        length: int = _LENGTH.unpack_from(self._view, self._position)[0]
        return length + 4

    def _reserve(self) -> bool:
        """Take a large frame's bytes from the budget, unless that was done.

        A length that no request can have takes none: it is refused in its turn.
        """
        wanted = self._wanted()
        if self._reserved or not READ_BYTES < wanted <= self._frame_bytes_max + 4:
            return True
        if not self._budget.try_take(wanted, self):
            self._refusals += 1
            if self._refusals >= REFUSALS_MAX:
                self._budget.put_first(self)
            return False
        self._reserved, self._refusals = wanted, 0
        return True

    def _release(self) -> None:
        size, self._reserved = self._reserved, 0
        self._budget.give(size)

    def _left(self) -> memoryview:
        assert self._view is not None
        return self._view[self._position : self._end]

    def _move(self, size: int) -> None:
        """Go on in a block of its own of at least ``size``, with what is there."""
        left = self._left()
        block = self._pool.take(max(size, len(left) + 1))
        view = memoryview(block)
        view[: len(left)] = left
        self._hold(view, block, None, len(left))

    def _stash(self) -> None:
        """Keep a copy of what is there, and hold no block."""
        if self._leftover is None:
            left = bytearray(self._left())
            self._hold(memoryview(left), None, left, len(left))

    def _forget(self) -> None:
        self._hold(None, None, None, 0)

    def _hold(
        self,
        view: memoryview | None,
        block: bytearray | None,
        leftover: bytearray | None,
        end: int,
    ) -> None:
        if self._block is not None:
            self._pool.give(self._block)
        self._view, self._block, self._leftover = view, block, leftover
        self._position, self._end = 0, end


def _no_request(length: int) -> str:
    """The error for a length that no request has."""
    start = _LENGTH.pack(length)
    if start in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI"):
        return "an HTTP request came to the Kafka port"
    if start[:2] == b"\x16\x03":
        return "a TLS handshake came to a port without TLS"
    return f"a request of {length} bytes"
