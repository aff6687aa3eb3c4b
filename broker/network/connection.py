"""One client: its frames in, its answers out in the order of the requests.

Everything happens on the loop, in whole steps that never wait:

    bytes come      -> frames are cut, handlers are started as far as order allows
    a handler ends  -> its answer is written once all before it are
    the loop turns  -> what was gathered meanwhile goes out in one write

A handler's response that is there at once is written without a task, a future or a
place in the pipeline. A coroutine gets a task; a future calls back.

Order. A connection's requests take effect one after another, as Kafka's do. Requests of
a pipelined route (Produce) have taken theirs when the handler returns, unless that is a
coroutine, so the next of that kind starts while they are open; anything else starts
when nothing is open.

Back-pressure. A connection stops reading its socket when its next request has to wait
for those before it, when too many are open, when its peer does not read its answers, or
when all connections together have too many bytes under way. What was received waits.
"""

import asyncio
from collections import deque
from contextvars import Context
from typing import Any, cast

import structlog

from broker.clock import ticks_ns
from broker.dispatch.dispatcher import Route
from broker.dispatch.pending import PendingBytes
from broker.dispatch.turns import LARGE_BYTES, Reading
from broker.network.exchange import OPEN_BYTES, Exchange
from broker.network.hub import Hub
from broker.network.large import LargeRequest
from broker.network.liveness import Liveness
from broker.network.sending import Sending, unsent_bytes
from broker.network.turn import CREDIT
from broker.protocol.buffers import Buffer
from broker.protocol.errors import ProtocolError
from broker.runtime.budget import Budget

log = structlog.get_logger("lakelog.network")


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of a client's connection."""

    __slots__ = (
        "_closing", "_counters", "_held", "_hub", "_large", "_limits", "_out",
        "_pipeline", "_pipelined", "_producing", "_receiver", "_refused", "_sending",
        "_started_ns", "_times", "_transport", "_unsent", "_waits_for_bytes",
        "bytes_in", "bytes_out", "credit", "liveness", "peer", "port",
        "reading_paused", "session", "writing_paused",
    )  # fmt: skip

    def __init__(self, hub: Hub) -> None:
        self._hub, self._limits = hub, hub.limits
        self._counters, self._times = hub.counters, hub.counters.times
        self._producing, self._pipelined = hub.producing, hub.dispatcher.pipelined
        self._receiver = hub.receiver()
        self._sending = Sending(hub, self._evict_slow_reader)
        self._pipeline: deque[Exchange] = deque()
        self._large: LargeRequest | None = None
        self._out: list[Buffer] = []
        self._unsent = self._held = 0
        self.bytes_in = self.bytes_out = self._started_ns = 0
        self._closing = self._refused = self._waits_for_bytes = False
        self.credit = CREDIT
        self.reading_paused = self.writing_paused = False
        self.liveness = Liveness(self, hub, self._receiver)

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer, self.port = (str(peer[0]), int(peer[1])) if peer else ("?", 0)
        self.session = self._hub.dispatcher.session(self.peer)
        if not self._hub.admit(self):
            self.abort()
            return
        self._transport.set_write_buffer_limits(high=self._limits.unsent_bytes_max)
        self.liveness.start()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._counters.network_bytes_in += nbytes
        self.bytes_in += nbytes
        held_up = self._out or self._large or self._closing or self.reading_paused
        if not (held_up or self._is_full() or self._hub.is_short):
            frame = self._receiver.only_frame(nbytes, self._next_keys())
            if frame is not None:
                self._start_alone(frame)
                return
        self._receiver.received(nbytes)
        self._advance()

    def eof_received(self) -> bool:
        return False  # a peer that sends no more is gone, unlike in Kafka

    def pause_writing(self) -> None:
        self.writing_paused = True

    def resume_writing(self) -> None:
        self.writing_paused = False
        self._sending.after_write(self._transport)
        self.resume_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._receiver.close()
        self.liveness.stop()
        self._out.clear()
        self._sending.close()
        self._abandon_pipeline()
        self._hub.forget(self)

    # What the listener, the hub and the watch ask

    @property
    def busy(self) -> bool:
        """Whether a request is open or an answer is not handed over yet."""
        waits = self._pipeline or self._large or self._out
        return bool(waits or self._transport.get_write_buffer_size())

    @property
    def open_requests(self) -> int:
        return len(self._pipeline) + (self._large is not None)

    @property
    def unsent_bytes(self) -> int:
        """What we have written and the peer has not taken."""
        return unsent_bytes(self._transport)

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def stop_reading(self) -> None:
        """Start no more requests; what is open may finish."""
        self._closing = True
        self._pause()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._transport.abort()

    def close(self) -> None:
        """Close when what was written has been sent; `Liveness` cuts off the rest."""
        self._closing = True
        self._transport.close()

    def close_idle(self) -> None:
        """Close a connection whose peer says nothing."""
        log.debug("idle connection closed", peer=self.peer)
        self.close()

    # Requests

    def _advance(self) -> None:
        """Start some of what has arrived, as far as the limits allow."""
        if self._transport.is_closing():
            return
        started, stalled = 0, False
        try:
            while not self._closing:
                if stalled := self._must_wait() or self._leaves_rest():
                    break
                frame = self._receiver.next_frame()
                if frame is None:
                    break
                started += 1
                self.credit -= 1
                self._start(frame)
                del frame  # nothing of ours may keep the buffer in use
        except ProtocolError as error:
            self.refuse(error)
        if started:
            self._hub.turn.went_on(self)
        self.liveness.note_progress(started > 0)
        self.flush()
        if not self._closing:
            self._read_on(stalled)

    def _next_keys(self) -> frozenset[int] | None:
        """Of which APIs one that comes alone may start now; None: of all."""
        if self._large:
            return frozenset()
        if not self._pipeline:
            return self._hub.turn.passing
        return self._pipelined if self._pipeline[-1].is_in_place else frozenset()

    def _start_alone(self, frame: memoryview) -> None:
        """As `_advance`, with a frame that came alone and may start now."""
        self.liveness.note_whole()
        self._start(frame)
        del frame  # nothing of ours may keep the buffer in use
        if self._out:
            self._hub.turn.note_alone(self._unsent)
            self.flush()
        elif self._pipeline and self._is_full() and not self._closing:
            self._pause()

    def _read_on(self, stalled: bool) -> None:
        """Read the socket again, or wait for memory or for requests to finish."""
        if not self._receiver.rest(begin=not stalled):
            self._wait_for_bytes(self._hub.receiving, self._receiver.wanted)
            self._hub.evict_slow_receivers()
            self._pause()
        elif stalled:
            self._pause()
            if not self._must_wait():  # what was gathered has left meanwhile
                self.resume_soon()
        elif self.reading_paused:
            self.reading_paused = False
            self._transport.resume_reading()

    def _start(self, frame: memoryview) -> None:
        self._started_ns = ticks_ns()
        try:
            route, correlation_id, result = self.session.start(frame)
        except Exception as error:  # noqa: BLE001 - told by broken
            self.broken(error)
            return
        if type(result) is Reading:
            self._large = LargeRequest(
                self, self._hub, route, correlation_id, len(frame), result
            )
        else:
            self.started(route, correlation_id, len(frame), result)

    def started(self, route: Route, number: int, size: int, result: Any) -> None:
        """A handler returned; its request was of so many bytes."""
        self._large = None
        self._counters.requests[route.key] += 1
        if result is None:
            return
        weight = size + OPEN_BYTES
        if isinstance(result, PendingBytes):
            exchange = Exchange(self, route, number, weight, result)
            exchange.started_ns = self._started_ns
            self._pipeline.append(exchange)
            self._producing.take(weight)
            result.add_done_callback(exchange)
        elif getattr(result, "__await__", None) is not None:
            if route.awaits_others:
                weight = 0
            if not route.is_write:
                weight = getattr(result, "retained_bytes", weight)
            self._await(Exchange(self, route, number, weight, result))
        else:
            self._answer(route, number, result)
            self._times[route.key].add_time(ticks_ns() - self._started_ns)

    def _await(self, exchange: Exchange) -> None:
        """Put an open request into the pipeline, and call back when it is done."""
        exchange.started_ns = self._started_ns
        self._pipeline.append(exchange)
        budget = self._hub.budget_of(exchange.route.is_write)
        budget.take(exchange.weight)
        result = exchange.result
        if getattr(result, "add_done_callback", None) is None:
            result = self._hub.loop.create_task(result)
        Context().run(result.add_done_callback, exchange)  # nobody's call
        if budget.spent and (cut_short := getattr(result, "cut_short", None)):
            cut_short()

    def finished(self, exchange: Exchange, future: Any) -> None:
        """Answer a request whose handler is done; called by its future."""
        self._times[exchange.route.key].add_time(ticks_ns() - exchange.started_ns)
        self._give_back(exchange)
        # Also of an answer that comes too late: it is released with the connection.
        exchange.reservation = getattr(future, "reservation", None)
        if self._transport.is_closing():
            return
        answer = future.answer if isinstance(future, PendingBytes) else None
        if answer is not None and not self._refused and exchange is self._pipeline[0]:
            self._pipeline.popleft()
            self._write([answer], len(answer))
            self._after_answer(exchange)
            return
        try:
            response = future.result()
        except ProtocolError as error:
            self.refuse(error)
            response = None
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - told
            self._fail(error)
            return
        self._complete(exchange, response)
        self._after_answer(exchange)

    def _answer(self, route: Route, number: int, response: Any) -> None:
        """Answer a request whose response is there when its handler returns."""
        if self._pipeline or not route.is_brief:
            self._pipeline.append(exchange := Exchange(self, route, number, 0))
            self._complete(exchange, response)
            self._answer_in_order()
            return
        try:
            self._write(*route.answer(number, response))
        except Exception as error:  # noqa: BLE001 - told by _fail
            self._fail(error)

    def _answer_in_order(self) -> None:
        """Write the answers that no other has to leave before."""
        pipeline = self._pipeline
        while pipeline and pipeline[0].done:
            first = pipeline.popleft()
            self._held -= first.size
            if first.reservation is not None:
                self._sending.add(first.reservation)
            if first.parts:
                self._write(first.parts, first.size)

    def _after_answer(self, exchange: Exchange) -> None:
        """Go on when an answer is there: write what may leave, and read on."""
        if self._pipeline:
            self._answer_in_order()
        if self._refused:
            self.close_if_answered()
        elif self._out and (self._pipeline or exchange.route.is_write):
            self._hub.flush_soon(self)  # with what else is answered in this turn
        else:
            self.flush()
        if self.reading_paused:
            self.resume_soon()

    def _give_back(self, exchange: Exchange) -> None:
        exchange.result = None
        weight, exchange.weight = exchange.weight, 0
        self._hub.budget_of(exchange.route.is_write).give(weight)

    def _complete(self, exchange: Exchange, response: Any) -> None:
        try:
            exchange.complete(response)
        except Exception as error:  # noqa: BLE001 - told by _fail
            self._fail(error)
        self._held += exchange.size  # 0 while it is being written

    def written(self, exchange: Exchange, error: Exception | None) -> None:
        """A large answer is whole, or could not be written."""
        if error is not None:
            self._fail(error)
        elif not self._transport.is_closing():
            self._held += exchange.size
            self._after_answer(exchange)

    def _abandon_pipeline(self) -> None:
        """Nobody hears the answers any more. What only waited to be heard ends, and so
        does what is `Underway`: it would have its effect on what came after. All else
        runs on, and weighs until it is done.
        """
        if self._large is not None:
            self._large.abandon()
        pipeline, self._pipeline = self._pipeline, deque()
        for exchange in pipeline:
            abandon = getattr(exchange.result, "abandon", None)
            exchange.abandon()
            if exchange.reservation is not None:
                exchange.reservation.release()
            if abandon is not None and abandon() is not False:
                self._give_back(exchange)

    # Answers

    def _write(self, parts: list[Buffer], size: int) -> None:
        self._out.extend(parts)
        self._unsent += size
        self._counters.network_bytes_out += size
        self.bytes_out += size

    def flush(self) -> None:
        """Hand what was gathered to the transport, in one call."""
        out = self._out
        if not out or self._transport.is_closing():
            return
        self._out, self._unsent = [], 0
        self._sending.write(self._transport, out)
        if self.reading_paused:
            self.resume_soon()

    # Limits

    def _must_wait(self) -> bool:
        """Whether the next request may not start for now."""
        is_behind = self._large or self._pipeline
        return bool(is_behind and self._is_held()) or self._stalled()

    def _leaves_rest(self) -> bool:
        """Whether others have their turn before the next request, which is whole."""
        return self._hub.turn.is_over(self) and self._receiver.next_key() is not None

    def _is_held(self) -> bool:
        """Whether the next request waits for those before it: a whole one, or a large
        one, which takes no memory from others while it waits.
        """
        keys, key = self._next_keys(), self._receiver.coming_key()
        return keys is not None and key is not None and key not in keys

    def _is_full(self) -> bool:
        """Whether the connection's own limits allow no more requests for now."""
        return (
            self.writing_paused
            or len(self._pipeline) >= self._limits.pipeline_max
            or self._unsent + self._held >= self._limits.unsent_bytes_max
        )

    def _stalled(self) -> bool:
        """Whether limits allow no more requests for now."""
        if self._is_full():
            return True
        spent = self._spent_budget()
        if spent is not None:
            self._wait_for_bytes(spent)
        return spent is not None

    def _spent_budget(self) -> Budget | None:
        """The budget that the next request has to wait for; None: it has not."""
        if not self._hub.is_short:
            return None
        key, urgent = self._receiver.coming_key(), self._hub.dispatcher.urgent
        if key is None:  # it shows when it is whole
            return None
        if key in urgent and self._receiver.next_length <= LARGE_BYTES:
            return None
        budget = self._hub.budget_of(key in self._pipelined)
        return budget if budget.spent else None

    def _pause(self) -> None:
        if not (self.reading_paused or self._transport.is_closing()):
            self.reading_paused = True
            self._transport.pause_reading()

    def _wait_for_bytes(self, budget: Budget, size: int = 0) -> None:
        if not self._waits_for_bytes:
            self._waits_for_bytes = True
            budget.wait(self._woken, size)

    def _woken(self) -> None:
        self._waits_for_bytes = False
        self.resume_soon()

    def resume_soon(self) -> None:
        """Look again at the loop's next turn: never from within another's step."""
        if not self._closing:
            self._hub.turn.come(self)

    def resume(self) -> None:
        if not self._closing and self.reading_paused:
            self._advance()

    def evict_if_slow(self, now_ms: int) -> None:
        """Others wait for memory: a frame that does not come fast gives its up."""
        self.liveness.evict_if_slow(now_ms)

    def _evict_slow_reader(self) -> None:
        """Others wait for the memory of answers that this peer does not read."""
        why = "others wait for the memory of answers that it does not read"
        self._hub.log_refusal("connection closed", why=why, peer=self.peer)
        self.abort()

    # Ends

    def broken(self, error: Exception) -> None:
        """A request could not be read, or its handler failed."""
        self._large = None
        if isinstance(error, ProtocolError):
            self.refuse(error)
        else:
            self._fail(error)

    def refuse(self, error: ProtocolError) -> None:
        """The peer does not speak the protocol: what was started is still answered."""
        self._counters.protocol_errors += 1
        self._hub.log_refusal(
            "connection closed: not what we speak",
            why=str(error),
            peer=self.peer,
            software=str(self.session.software),
        )
        self._closing = self._refused = True
        self._pause()
        self.close_if_answered()

    def close_if_answered(self) -> None:
        """Close where the peer was refused, once what was started is answered."""
        if self._refused and not (self._large or self._pipeline):
            self.flush()
            self.close()

    def _fail(self, error: BaseException) -> None:
        """A handler failed: our own mistake, told in full; the peer asks again."""
        self._counters.handler_errors += 1
        log.error("a handler failed; connection closed", peer=self.peer, exc_info=error)
        self.abort()
