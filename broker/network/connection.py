"""One client: its frames in, its answers out in the order of the requests.

Everything happens on the loop, in whole steps that never wait:

    bytes come      -> frames are cut, handlers are started (their ordered part runs)
    a handler ends  -> its answer is written once all before it are
    the loop turns  -> what was gathered meanwhile goes out in one write

A handler's response that is there at once is written without a task, a future or a
place in the line. A coroutine gets a task; a future calls back.

Back-pressure. A connection stops reading its socket when it has too many requests open,
when its peer does not read its answers, or when all connections together have too many
bytes under way. Frames already received stay where they are and are not started.
"""

import asyncio
from collections import deque
from typing import Any, cast

import structlog

from broker.network.budget import Budget
from broker.network.exchange import Exchange
from broker.network.hub import Hub
from broker.protocol.buffers import Buffer
from broker.protocol.errors import ProtocolError

log = structlog.get_logger("lakelog.network")

HURRY_MS = 5_000
"""So fast a large request must come while others wait for the memory it holds."""
HURRY_GRACE_MS = 1_000


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of a client's connection."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._limits = hub.limits
        self._counters = hub.counters
        self._receiver = hub.receiver()
        self._line: deque[Exchange] = deque()
        self._out: list[Buffer] = []
        self._unsent = 0
        self._held = 0
        self._closing = False
        self._ending = False
        self._reading_paused = False
        self._writing_paused = False
        self._waits_for_bytes = False
        self._resuming = False
        self._partial_since_ms = 0
        self._active_ms = 0
        self._left_to_send = 0
        self._timer: Any = None

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else "?"
        self._session = self._hub.dispatcher.session(self.peer)
        if not self._hub.admit(self):
            self._closing = True
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._limits.unsent_bytes_max)
        self._active_ms = self._hub.clock.monotonic_ms()
        self._watch()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._counters.network_bytes_in += nbytes
        self._receiver.received(nbytes)
        self._advance()

    def eof_received(self) -> bool:
        return False  # a peer that sends no more is gone, as in Kafka

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._resume_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._receiver.close()
        if self._timer is not None:
            self._timer.cancel()
        self._out.clear()
        self._hub.forget(self)

    # What the listener asks

    @property
    def busy(self) -> bool:
        """Whether a request is open or an answer is not handed over yet."""
        return bool(self._line or self._out or self._transport.get_write_buffer_size())

    def stop_reading(self) -> None:
        """Start no more requests; what is open may finish."""
        self._closing = True
        if not self._transport.is_closing():
            self._pause()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._transport.abort()

    def close(self) -> None:
        """Close when what was written has been sent; ``_watch`` cuts off the rest."""
        self._closing = self._ending = True
        self._transport.close()

    # Requests

    def _advance(self) -> None:
        """Start what has arrived, as far as the limits allow."""
        if self._transport.is_closing():
            return
        started = stalled = False
        try:
            while not self._closing:
                if stalled := self._stalled():
                    break
                frame = self._receiver.next_frame()
                if frame is None:
                    break
                started = True
                self._start(frame)
                del frame  # nothing of ours may keep the buffer in use
        except ProtocolError as error:
            self._refuse(error)
        self._note_progress(started)
        self.flush()
        if not self._closing:
            self._read_on(stalled)

    def _read_on(self, stalled: bool) -> None:
        """Read more, or wait for what makes it possible."""
        if not self._receiver.rest():
            self._wait_for_bytes(self._hub.receiving, self._receiver.wanted)
            self._hub.hurry()
            self._pause()
        elif stalled:
            self._pause()
            if not self._stalled():  # what was gathered has left meanwhile
                self._resume_soon()
        elif self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def _start(self, frame: memoryview) -> None:
        try:
            route, correlation_id, result = self._session.start(frame)
        except ProtocolError:
            raise
        except Exception as error:  # noqa: BLE001 - told by _fail
            self._fail(error)
            return
        self._counters.requests[route.key] += 1
        if result is None:
            return
        if getattr(result, "__await__", None) is not None:
            self._await(Exchange(self, route, correlation_id, len(frame)), result)
        elif self._line:
            exchange = Exchange(self, route, correlation_id, 0)
            self._line.append(exchange)
            self._settle(exchange, result)
        else:
            try:
                self._write(*route.answer(correlation_id, result))
            except Exception as error:  # noqa: BLE001 - told by _fail
                self._fail(error)

    def _await(self, exchange: Exchange, result: Any) -> None:
        """Let a request run on; it takes its place in the line."""
        self._line.append(exchange)
        self._hub.answering.take(exchange.weight)
        if getattr(result, "add_done_callback", None) is None:
            result = self._hub.loop.create_task(result)
        result.add_done_callback(exchange)

    def finished(self, exchange: Exchange, future: Any) -> None:
        """The handler of a request is done: called by its future."""
        self._hub.answering.give(exchange.weight)
        if self._transport.is_closing():
            return
        try:
            response = future.result()
        except ProtocolError as error:
            self._refuse(error)
            return
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - told
            self._fail(error)
            return
        self._settle(exchange, response)
        line = self._line
        while line and line[0].done:
            first = line.popleft()
            self._held -= first.size
            if first.parts:
                self._write(first.parts, first.size)
        if self._out:
            self._hub.flush_soon(self)
        elif self._reading_paused:
            self._resume_soon()

    def _settle(self, exchange: Exchange, response: Any) -> None:
        try:
            exchange.settle(response)
        except Exception as error:  # noqa: BLE001 - told by _fail
            self._fail(error)
        self._held += exchange.size

    # Answers

    def _write(self, parts: list[Buffer], size: int) -> None:
        self._out.extend(parts)
        self._unsent += size
        self._counters.network_bytes_out += size

    def flush(self) -> None:
        """Hand what was gathered to the transport, in one call."""
        out = self._out
        if not out or self._transport.is_closing():
            return
        self._out = []
        self._unsent = 0
        self._transport.writelines(out)
        if self._reading_paused:
            self._resume_soon()

    # Limits

    def _stalled(self) -> bool:
        """Whether to start no more requests for now."""
        if (
            self._writing_paused
            or len(self._line) >= self._limits.pipeline_max
            or self._unsent + self._held >= self._limits.unsent_bytes_max
        ):
            return True
        if self._hub.answering.spent:
            self._wait_for_bytes(self._hub.answering)
            return True
        return False

    def _pause(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _wait_for_bytes(self, budget: Budget, size: int = 0) -> None:
        if not self._waits_for_bytes:
            self._waits_for_bytes = True
            budget.wait(self._woken, size)

    def _woken(self) -> None:
        self._waits_for_bytes = False
        self._resume_soon()

    def _resume_soon(self) -> None:
        """Look again at the loop's next turn: never from within another's step."""
        if not (self._resuming or self._closing):
            self._resuming = True
            self._hub.loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        if not self._closing and self._reading_paused:
            self._advance()

    def _note_progress(self, started: bool) -> None:
        """Since when a frame has been arriving; 0 if none is."""
        now_ms = self._hub.clock.monotonic_ms()
        if started:
            self._active_ms = now_ms
        if not self._receiver.waits_for_more:
            self._partial_since_ms = 0
        elif started or self._reading_paused or not self._partial_since_ms:
            self._partial_since_ms = now_ms  # the time that we did not read is ours

    def _watch(self) -> None:
        """Close a connection that says nothing, or never ends what it says.

        One that does not even take its last answers is cut off at the next look.
        """
        if self._ending:
            self.abort()
            return
        now_ms = self._hub.clock.monotonic_ms()
        since_ms = self._partial_since_ms
        late = since_ms and now_ms - since_ms >= self._limits.half_frame_ms
        if late and not self._reading_paused:
            self._refuse(ProtocolError("a request did not arrive whole in time"))
        left = self._transport.get_write_buffer_size()
        if left < self._left_to_send:  # it reads, however slowly
            self._active_ms = now_ms
        self._left_to_send = left
        waits = bool(self._line) or (since_ms and not self._reading_paused)
        if not waits and now_ms - self._active_ms >= self._limits.idle_ms:
            log.debug("idle connection closed", peer=self.peer)
            self.close()
        pause_ms = min(self._limits.half_frame_ms, self._limits.idle_ms)
        self._timer = self._hub.timers.after(max(pause_ms // 4, 1), self._watch)

    def hurry(self, now_ms: int) -> None:
        """Others wait for memory: a frame that does not come fast gives its up."""
        reserved, arrived = self._receiver.share
        held_ms = now_ms - self._partial_since_ms
        if not reserved or held_ms < HURRY_GRACE_MS:
            return
        if self._reading_paused and not self._writing_paused:
            return  # it would send if we read
        if arrived * HURRY_MS < reserved * held_ms:
            self._refuse(ProtocolError("a large request came slowly, others waited"))
            self.abort()

    # Ends

    def _refuse(self, error: ProtocolError) -> None:
        """The peer does not speak the protocol."""
        self._counters.protocol_errors += 1
        software = self._session.software
        self._hub.complain(
            "connection closed: not what we speak",
            peer=self.peer,
            why=str(error),
            software=f"{software.name} {software.version}".strip() or "unknown",
        )
        self.flush()
        self.close()

    def _fail(self, error: BaseException) -> None:
        """A handler failed: our own mistake, told in full; the peer asks again."""
        self._counters.handler_errors += 1
        log.error("a handler failed; connection closed", peer=self.peer, exc_info=error)
        self.abort()
