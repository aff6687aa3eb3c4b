"""A broker as a process: on the machine's own files, clock, threads and network.

A start goes from the disk to the network: the directory is claimed, the catalog opened,
the write-ahead log recovered, tables are found, partitions made of all three; then, and
only then, clients may come. A stop goes back the same way. Each part that was started
puts its end on a stack, so that a start that fails half way leaves nothing behind.
"""

import asyncio
import base64
import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import structlog
import uvloop

from broker import failpoints
from broker.assembly import Assembly, Surroundings, assemble, bring_maintenance, listen
from broker.catalog.errors import CatalogError
from broker.catalog.missing import check_not_lost
from broker.clock import SystemClock
from broker.ids import TopicNumber
from broker.lake.lake import Lake
from broker.memory import give_back_compiler, give_back_free, limit_heaps
from broker.network.connection_facts import describe
from broker.network.hub import Hub
from broker.protocol.api_keys import ApiKey
from broker.records import inspect
from broker.runtime.coordination.held_tables import HeldTables
from broker.runtime.partitions import timestamps
from broker.runtime.process.internal import InternalEndpoint, Question, Row
from broker.runtime.process.internal_places import place_of_broker
from broker.runtime.process.logging import configure_logging, levels, recent
from broker.runtime.process.loop_idle import LoopIdle
from broker.runtime.process.loop_lag import LoopLag
from broker.runtime.process.loop_timers import LoopTimers
from broker.runtime.process.maintenance import MaintenanceScheduler
from broker.runtime.process.sizes import sized
from broker.runtime.process.status import Counters, StatusFile
from broker.runtime.process.topic_rows import sizes, traffic
from broker.runtime.services import Broker
from broker.runtime.topics.config_describe import join_host_port
from broker.settings import Settings
from broker.status.file import path_of
from broker.status.schema import BrokerStatus, TableState, WalState
from broker.status.secret import SecretUnusable
from broker.storage.directory import DataDirectory
from broker.storage.files import PosixFiles
from broker.storage.places import has_log
from broker.storage.wal import Wal
from broker.storage.warehouse import DirectoryRefused
from lakehouse.location import warehouse_of

log = structlog.get_logger("lakelog.broker")

SWITCH_INTERVAL_S = 0.001
"""How long a thread waits for the interpreter while another computes. Python's 5 ms
would be most of an acknowledgement's time when the loop is busy."""

STOP_S = 9.5
"""A stop that hangs, say in a sync that never returns, is ended after this."""

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - addresses that mean all of ours

API_NAMES = {int(key): key.name.lower() for key in ApiKey}


class StartRefused(Exception):
    """The broker cannot start; the message is one sentence for people."""


class Node:
    """A running broker. Made by ``start``, ended by ``stop``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.address = ("", 0)
        self.directory: DataDirectory
        self.broker: Broker
        self.maintenance: MaintenanceScheduler
        self._clock = SystemClock()
        self._counters = Counters()
        self._idle = LoopIdle()
        self._request_bytes: Callable[[], int] = int
        self._files = PosixFiles()
        self._ends = contextlib.AsyncExitStack()
        self._state = "starting"
        self._damage: list[str] = []
        self._troubles: Callable[[], list[str]] = list
        self.timers: LoopTimers
        self._held: HeldTables
        self._lake: Lake
        self._unreadable: Callable[[], Mapping[TopicNumber, str]] = dict
        self._forget_read: Callable[[], None] = lambda: None
        self._unreadable_since: dict[TopicNumber, int] = {}
        self._started_ms = self._clock.now_ms()

    @classmethod
    async def start(cls, settings: Settings) -> "Node":
        """Start a broker; clients may come when this returns.

        Raises:
            StartRefused: the port, the directory or the catalog cannot be had.
        """
        node = cls(settings)
        try:
            await node._start()
        except (DirectoryRefused, CatalogError) as error:
            await node._ends.aclose()
            raise StartRefused(str(error)) from error
        except OSError as error:
            await node._ends.aclose()
            raise StartRefused(f"{settings.data_dir}: {error}") from error
        except BaseException:
            await node._ends.aclose()
            raise
        return node

    async def accelerate(self, loop: asyncio.AbstractEventLoop) -> None:
        """Load the compiled writer and let the log use it.

        Where that cannot be (nowhere to keep what is compiled, a system without its
        calls) the writer in Python goes on, as it does before this. Not where a test
        wants the process to die at a point that only Python passes.
        """
        if failpoints.armed():
            return
        try:
            await loop.run_in_executor(None, import_module, "broker.storage.lane")
            self.broker.wal.accelerate(
                self.broker.partitions.bounds, loop.add_reader, loop.remove_reader
            )
        except Exception as error:  # noqa: BLE001 - slower, and all else is well
            log.warning("batches are written by Python, slower", why=repr(error))

    async def stop(self) -> None:
        """Answer what is open, within a time limit, and close all parts."""
        self._state = "stopping"
        await self._ends.aclose()

    async def _start(self) -> None:
        self._claim()
        check_not_lost(
            self.settings.data_dir, has_log=has_log(self.settings.data_dir / "wal")
        )
        loop = asyncio.get_running_loop()
        self.timers = timers = LoopTimers(loop, self._clock)
        timers.expect_pauses()
        self._ends.callback(timers.close)
        self._bring_status(timers)
        lag = LoopLag(loop, self._counters.loop_lag)
        lag.start()
        self._ends.callback(lag.close)
        around = Surroundings(loop, self._files, self._clock, timers, self._bring_lake)
        assembly = assemble(self.settings, around, self._ends, self._counters)
        self.broker = assembly.broker
        self._held = HeldTables(
            self.broker.partitions,
            self.broker.transactions,
            self.broker.topics,
            self._clock,
        )
        self._damage = list(assembly.recovery.damage)
        self.maintenance = maintenance = bring_maintenance(assembly, self._ends)
        maintenance.on_rest = lambda: loop.run_in_executor(None, self._rest)
        tables = assembly.tables
        self._troubles = lambda: [*tables.problems(), *maintenance.missing]
        self._unreadable = tables.unserved_topics
        await self._listen(assembly)
        self._state = "serving"

    def _claim(self) -> None:
        owner = f"the broker on {self.settings.listener}, process {os.getpid()}"
        path = self.settings.data_dir
        lake = self.settings.lake
        self.directory = DataDirectory.claim(
            self._files, path, owner, lake.warehouse, lake.further
        )
        self._ends.callback(self.directory.close)

    def _bring_status(self, timers: LoopTimers) -> None:
        status = StatusFile(
            path_of(self.settings.data_dir, BrokerStatus),
            self._facts,
            clock=self._clock,
            timers=timers,
            files=self._files,
        )
        status.start()
        self._ends.push_async_callback(status.close)

    def _bring_lake(self, wal: Wal) -> Lake:
        lake_settings = self.settings.lake
        lake = Lake(
            self.directory.tables,
            call_soon=asyncio.get_running_loop().call_soon_threadsafe,
            follow_ms=lake_settings.follow_ms,
            cold_cache_bytes=lake_settings.cold_cache_bytes,
            read_threads=lake_settings.read_threads,
            others_work=wal.is_busy,
        )
        self._forget_read, self._lake = lake.rest, lake
        return lake

    def _rest(self) -> None:
        """Give back what nobody needs while nobody reads or writes. Blocks."""
        self._forget_read()
        give_back_free()

    async def _listen(self, assembly: Assembly) -> None:
        host, port = _host_and_port(self.settings.listener)
        try:
            self.address, hub = await listen(assembly, host, port, self._ends)
        except OSError as error:
            raise StartRefused(
                f"cannot listen on {self.settings.listener}: "
                f"{error.strerror or error}; choose another --listener"
            ) from error
        self.broker.advertised = self._advertised()
        budgets = (hub.producing, hub.answering)
        self._request_bytes = lambda: sum(one.taken for one in budgets)
        self._bring_internal(hub)

    def _bring_internal(self, hub: Hub) -> None:
        """Let the admin plane ask; without it the broker serves all the same."""
        broker = self.broker
        endpoint = InternalEndpoint(
            place_of_broker(self.directory.run, self.settings.internal),
            {
                "connections": Question(lambda: describe(hub)),
                "segments": Question(self._segments),
                "topics": Question(lambda: traffic(broker.topics, broker.partitions)),
                "sizes": Question(lambda: sizes(broker.topics, broker.partitions)),
                "telemetry": Question(self._telemetry),
                "log": Question(_recent_lines, is_of_loop=False),
            },
            levels,
            asyncio.get_running_loop().call_soon_threadsafe,
        )
        try:
            endpoint.start()
        except (OSError, SecretUnusable) as error:
            log.warning("there is no internal endpoint", why=str(error))
        else:
            self._ends.callback(endpoint.close)

    def _segments(self) -> Iterator[Row]:
        for segment in self.broker.wal.segments():
            yield {
                "sequence": segment.sequence,
                "bytes": segment.bytes,
                "sealed": segment.sealed,
            }

    def _telemetry(self) -> Iterator[Row]:
        """What clients pushed last of their own metrics, as OpenTelemetry has them."""
        for one in self.broker.telemetry.instances():
            yield {
                "client_instance_id": one.id.hex(),
                "client_id": one.client_id,
                "pushed_ms": one.pushed_ms,
                "metrics": base64.b64encode(one.metrics).decode(),
            }

    def _advertised(self) -> tuple[str, int]:
        """Where clients are told to connect to; port 0 is the one that was chosen."""
        address = self.settings.advertised or self.settings.listener
        host, port = _host_and_port(address)
        if host in _EVERYWHERE:
            host = socket.gethostname()
            log.warning("clients are told this machine's name", advertised=host)
        return host, port or self.address[1]

    def _facts(self) -> BrokerStatus:
        """What the status file says."""
        status = BrokerStatus(
            state=self._state,
            pid=os.getpid(),
            started_ms=self._started_ms,
            node_id=self.settings.node_id,
            problems=tuple(self._problems()),
            warnings=tuple(filter(None, [relaxed(self.settings)])),
            connections_open=self._counters.connections_open,
            counters=self._counters.totals(),
            requests=self._counters.requests_by_name(API_NAMES),
            request_times=self._counters.times_by_name(API_NAMES),
            loop_lag=self._counters.loop_lag.state(),
            loop_idle_percent=self._idle.percent(),
        )
        if self._state == "starting":
            return status
        broker = self.broker
        segments, held = broker.wal.segments(), self._held.look()
        return replace(
            sized(status, broker, self._lake.cold_figures(), self._request_bytes()),
            kafka=join_host_port(*self.address),
            cluster_id=broker.cluster_id,
            topics=len(broker.topics),
            partitions=broker.partitions.count,
            waiting=len(broker.purgatory),
            sync_times=broker.wal.sync_times(),
            group_batches=broker.wal.group_sizes(),
            warnings=(
                *status.warnings,
                *held.warnings,
                *broker.transactions.warnings(),
            ),
            partitions_held=held.partitions,
            transaction_oldest_ms=held.oldest_ms,
            transactions=held.transactions,
            tables=self._unreadable_tables(),
            wal=WalState(len(segments), sum(segment.bytes for segment in segments)),
        )

    def _unreadable_tables(self) -> tuple[TableState, ...]:
        """The tables of whose rows some cannot be served, why, and since when we
        know."""
        topics, before = self.broker.topics, self._unreadable_since
        found = self._unreadable()
        now_ms = self._clock.now_ms()
        self._unreadable_since = {n: before.get(n, now_ms) for n in found}
        return tuple(
            TableState(
                topic.name,
                readable=False,
                why=why,
                since_ms=self._unreadable_since[number],
            )
            for number, why in found.items()
            if (topic := topics.by_number(number)) is not None
        )

    def _problems(self) -> list[str]:
        problems = [*self._damage, *self._troubles()]
        if self._state != "starting" and self.broker.wal.trouble is not None:
            problems.append(f"nothing can be written: {self.broker.wal.trouble}")
        if self._state != "starting" and self.broker.catalog.trouble is not None:
            problems.append(f"nothing can be changed: {self.broker.catalog.trouble}")
        return problems


def relaxed(settings: Settings) -> str:
    """What the relaxed mode risks, in one sentence; empty in the durable mode."""
    if settings.wal.sync == "always":
        return ""
    return (
        "wal.sync=interval: batches are acknowledged and visible before they are "
        f"synced; a power cut may lose those of the last "
        f"{settings.wal.sync_interval_ms} ms"
    )


def run_broker(settings: Settings, announce: Callable[[str], None]) -> int:
    """Run a broker until SIGTERM or ctrl-C; its exit code.

    ``announce`` gets one line once clients can produce and consume. A second signal
    ends the process at once.
    """
    configure_logging(settings)
    limit_heaps()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _allow_files()
    try:
        uvloop.run(_serve(settings, announce))
    except StartRefused as error:
        sys.stderr.write(f"lakelog: {error}\n")
        return 1
    return 0


async def _serve(settings: Settings, announce: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_unhandled)
    stopping = _stop_at_signals(loop)
    node = await Node.start(settings)
    _tune_garbage_collection()
    node.timers.warn_of_pauses()
    kafka = join_host_port(*node.broker.advertised)
    tables = warehouse_of(settings.data_dir)
    log.info("serving", kafka=kafka, cluster_id=node.broker.cluster_id)
    warning = relaxed(settings)
    if warning:
        log.warning(warning)
    mode = "sync=interval " if warning else ""
    announce(f"ready kafka={kafka} {mode}tables={tables}")
    is_warm = await _until(stopping, _warm_up(node, loop))
    await stopping.wait()
    log.info("stopping")
    last = threading.Timer(STOP_S, os._exit, (1,))
    last.daemon = True
    last.start()
    await node.stop()
    if not is_warm:
        last.cancel()  # what is being loaded ends, and the process with it
    log.info("stopped")


async def _warm_up(node: Node, loop: asyncio.AbstractEventLoop) -> None:
    """Load what takes half a second that the first producer need not wait for."""
    await loop.run_in_executor(None, inspect.warm)
    await loop.run_in_executor(None, timestamps.warm)
    await node.accelerate(loop)
    await loop.run_in_executor(None, give_back_compiler)


async def _until(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work, and whether it was done: when the event comes first, what is left of
    it stays undone. Raises what the work raises.
    """
    working = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    return not working.cancelled()


def _stop_at_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """Set at the first SIGTERM or SIGINT; the second one ends the process."""
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            os._exit(1)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopping


def _allow_files() -> None:
    """As many open files as we may have: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _tune_garbage_collection() -> None:
    """Look for garbage often enough that it is little, never in what was loaded.

    The hot path makes no cycles, but refusals do (exceptions), and clients who are
    refused may ask ten thousand times a second: 50,000 such objects took 80 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 50)


def _recent_lines() -> Iterator[Row]:
    for line in list(recent):
        yield {"line": line}


def _unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the loop would have told on its own, as an event of our log."""
    error = context.get("exception")
    log.error(context.get("message", "unhandled"), exc_info=error or False)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
