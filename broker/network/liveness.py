"""Whether a peer does its part: says something, ends what it says, takes its answers.

Each connection is looked at four times in the shorter of its two limits, many of them
in one turn of the loop: a thousand connections that were looked at a millisecond after
each other would wake the loop as often as requests do. It is closed
when it has said nothing for ``idle_ms``, or when a request has been on its way for
``half_frame_ms``; a large one on a slow line, when so long less than ``STEADY_BYTES``
of it have come: its producer would send it again, as slowly. Only the peer's time
counts: while the connection does not read, or a handler runs, it is the broker's. One
that does not even take its last answers is cut off at the look after that.
"""

from typing import Any, Protocol

from broker.network.hub import Hub
from broker.network.receiver import Receiver
from broker.protocol.errors import ProtocolError

LOOKS = 64
"""At so many moments of a pause connections are looked at: of thousands some dozens in
one turn of the loop."""

STEADY_BYTES = 16 << 10
"""What has to come of a large request in ``half_frame_ms``, 0.5 kB/s by default: there
are links that slow, and who only means to hold a connection pays for it."""

EVICT_SLOW_MS, EVICT_GRACE_MS = 5_000, 1_000
"""So fast a large request must come while others wait for the memory it holds."""


class Peer(Protocol):
    """A connection, as it is watched."""

    reading_paused: bool
    writing_paused: bool

    @property
    def open_requests(self) -> int: ...

    @property
    def unsent_bytes(self) -> int:
        """What was written and the peer has not taken."""

    @property
    def is_closing(self) -> bool: ...
    def refuse(self, error: ProtocolError) -> None: ...
    def close_idle(self) -> None: ...
    def abort(self) -> None: ...


class Liveness:
    """What is known of one peer's pace; `start` it when its connection is made."""

    __slots__ = (
        "_active_ms", "_hub", "_partial_since_ms", "_peer", "_receiver", "_steady",
        "_timer", "_unsent_bytes", "_was_active", "since_ms",
    )  # fmt: skip

    def __init__(self, peer: Peer, hub: Hub, receiver: Receiver) -> None:
        self._peer, self._hub, self._receiver = peer, hub, receiver
        self._was_active = False  # since the last look
        self._partial_since_ms: int | None = None  # since when a frame is arriving
        self._steady = 0, 0  # when enough had come of that frame, and how much it was
        self._active_ms = self._unsent_bytes = 0
        self.since_ms = 0  # when the connection was made, by the monotonic clock
        self._timer: Any = None

    def start(self) -> None:
        """Look from now on, until stopped."""
        self.since_ms = self._active_ms = self._hub.clock.monotonic_ms()
        self._look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def idle_ms(self, now_ms: int) -> int:
        """How long it has said nothing: 0 if it spoke since the last look."""
        return 0 if self._was_active else now_ms - self._active_ms

    def note_whole(self) -> None:
        """Note that a request came, and nothing behind it."""
        self._was_active = True
        self._partial_since_ms = None

    def note_progress(self, started: bool) -> None:
        """Note whether requests were started, and whether a part of one is there."""
        self._was_active |= started
        if not self._receiver.waits_for_more:
            self._partial_since_ms = None
        elif started or self._peer.reading_paused or self._partial_since_ms is None:
            # the time that we did not read is ours
            self._partial_since_ms = self._hub.clock.monotonic_ms()

    def evict_if_slow(self, now_ms: int) -> None:
        """Cut the peer off if its request comes slowly: others wait for memory."""
        reserved, arrived = self._receiver.share
        would_send = self._peer.reading_paused and not self._peer.writing_paused
        if not reserved or would_send or self._partial_since_ms is None:
            return
        held_ms = now_ms - self._partial_since_ms
        if held_ms < EVICT_GRACE_MS:
            return
        if arrived * EVICT_SLOW_MS < reserved * held_ms:
            self._peer.refuse(
                ProtocolError("a large request came slowly, others waited")
            )
            self._peer.abort()

    def _look(self) -> None:
        peer, limits = self._peer, self._hub.limits
        if peer.is_closing:
            peer.abort()
            return
        now_ms = self._hub.clock.monotonic_ms()
        since_ms = None if peer.reading_paused else self._partial_since_ms
        if since_ms is not None and self._has_stopped(since_ms, now_ms):
            peer.refuse(ProtocolError("a request did not arrive whole in time"))
        if self._is_alive():
            self._active_ms = now_ms
        if since_ms is None and now_ms - self._active_ms >= limits.idle_ms:
            peer.close_idle()
        pause_ms = max(min(limits.half_frame_ms, limits.idle_ms) // 4, 1)
        early_ms = now_ms % max(pause_ms // LOOKS, 1)  # with those of this moment
        self._timer = self._hub.timers.after(pause_ms - early_ms, self._look)

    def _has_stopped(self, since_ms: int, now_ms: int) -> bool:
        """Whether the frame that arrives since then has not come on for too long."""
        (steady_ms, before), (_, arrived) = self._steady, self._receiver.share
        if steady_ms <= since_ms:  # that was of a frame before
            steady_ms, before = since_ms, 0
        if arrived - before >= STEADY_BYTES:
            self._steady = now_ms, arrived
            return False
        return now_ms - steady_ms >= self._hub.limits.half_frame_ms

    def _is_alive(self) -> bool:
        """Whether it spoke since the last look, or read, however slowly; or could not:
        it waits for an answer, or for the broker to read."""
        peer, unsent_bytes = self._peer, self._peer.unsent_bytes
        was_active, self._was_active = self._was_active, False
        reads = unsent_bytes < self._unsent_bytes
        self._unsent_bytes = unsent_bytes
        is_held = peer.reading_paused and not peer.writing_paused
        return was_active or reads or peer.open_requests > 0 or is_held
