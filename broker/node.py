"""Builds the parts of a broker and wires them: the only place that knows them all.

A start goes from the disk to the network: the directory is claimed, the catalog opened,
the write-ahead log recovered, tables are found, partitions made of all three; then, and
only then, clients may come. A stop goes back the same way. Each part that was started
puts its end on a stack, so that a start that fails half way leaves nothing behind.
"""

import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
import uvloop

from broker.catalog import topics as stored_topics
from broker.catalog.catalog import Catalog
from broker.catalog.errors import CatalogError
from broker.clock import SystemClock
from broker.dispatch.dispatcher import Dispatcher
from broker.dispatch.registry import Registry
from broker.lake.lake import Lake
from broker.lake.release import Releaser
from broker.memory import give_back_compiler
from broker.network.hub import Hub
from broker.network.listener import Listener
from broker.protocol.api_keys import ApiKey
from broker.records import inspect
from broker.runtime.coordinator import Coordinator
from broker.runtime.described import topic_config
from broker.runtime.inspector import Inspector
from broker.runtime.logging import configure_logging
from broker.runtime.loop_timers import Timers
from broker.runtime.partitions import Partitions
from broker.runtime.producer_ids import ProducerIds
from broker.runtime.restore import restore
from broker.runtime.services import Broker
from broker.runtime.status import Counters, StatusFile
from broker.runtime.topics import Topics
from broker.runtime.upkeep import Upkeep
from broker.settings import Settings
from broker.storage.directory import DataDirectory, DirectoryRefused
from broker.storage.files import PosixFiles
from broker.storage.recovery import Recovery
from broker.storage.wal import Wal
from broker.timing.delayed import DelayedOperations

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
        self._clock = SystemClock()
        self._counters = Counters()
        self._files = PosixFiles()
        self._ends = contextlib.AsyncExitStack()
        self._state = "starting"
        self._damage: list[str] = []
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

    async def stop(self) -> None:
        """Answer what is open, within a time limit, and let go of everything."""
        self._state = "stopping"
        await self._ends.aclose()

    async def _start(self) -> None:
        self._claim()
        loop = asyncio.get_running_loop()
        timers = Timers(loop, self._clock)
        self._ends.callback(timers.close)
        self._bring_status(timers)
        catalog = Catalog.open(self.settings.data_dir / "catalog.db")
        self._ends.callback(catalog.close)
        inspector = Inspector(self._clock.now_ms)
        wal, recovery = self._open_wal(loop, inspector)
        self._build(loop, timers, catalog, wal, inspector, recovery)
        await self._listen(loop)
        self._state = "serving"

    def _claim(self) -> None:
        owner = f"the broker on {self.settings.listener}, process {os.getpid()}"
        path = self.settings.data_dir
        self.directory = DataDirectory.claim(self._files, path, owner)
        self._ends.callback(self.directory.close)

    def _bring_status(self, timers: Timers) -> None:
        status = StatusFile(
            self.directory.run / "broker.json",
            self._facts,
            clock=self._clock,
            timers=timers,
            files=self._files,
        )
        status.start()
        self._ends.push_async_callback(status.close)

    def _open_wal(
        self, loop: asyncio.AbstractEventLoop, inspector: Inspector
    ) -> tuple[Wal, Recovery]:
        wal_settings = self.settings.wal
        # Both return a handle, of no use here.
        call_soon: Any = loop.call_soon_threadsafe
        next_turn: Any = loop.call_soon
        wal, recovery = Wal.open(
            self._files,
            self.directory.wal,
            call_soon=call_soon,
            next_turn=next_turn,
            segment_bytes=wal_settings.segment_bytes,
            inspect=inspector,
            spare_segments=wal_settings.spare_segments,
            free_segments_max=wal_settings.free_segments_max,
            hot_bytes=wal_settings.hot_bytes,
            on_sealed=lambda _: self.broker.partitions.checkpoint(),
            clock=self._clock,
        )
        self._ends.callback(wal.close)
        self._damage = list(recovery.damage)
        if recovery.torn:
            log.warning("an unfinished write was cut off", what=recovery.torn)
        for damage in recovery.damage:
            log.error("the write-ahead log is damaged", what=damage)
        return wal, recovery

    def _build(
        self,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        catalog: Catalog,
        wal: Wal,
        inspector: Inspector,
        recovery: Recovery,
    ) -> None:
        """Everything between the disk and the network."""
        settings = self.settings
        topics = Topics(catalog, self._clock)
        topics.load(catalog.read(stored_topics.load))
        lake = self._bring_lake(loop, topics, wal)
        waits = DelayedOperations(timers)
        partitions = Partitions(
            topics,
            wal,
            lake,
            waits,
            inspector,
            self._counters,
            config_of=lambda topic: topic_config(topic, settings),
            call_soon=loop.call_soon,
        )
        log_starts = catalog.read(stored_topics.load_log_starts)
        now_ms = self._clock.now_ms()
        replayed = restore(partitions, topics, recovery, log_starts, lake, now_ms)
        partitions.checkpoint()  # recovered segments can be let go behind it
        self._ends.callback(partitions.checkpoint)
        groups = Coordinator(catalog, timers, self._clock, settings, topics)
        groups.load()
        self.broker = Broker(
            settings=settings,
            clock=self._clock,
            timers=timers,
            catalog=catalog,
            topics=topics,
            partitions=partitions,
            groups=groups,
            producer_ids=ProducerIds(catalog),
            lake=lake,
            wal=wal,
            waits=waits,
            counters=self._counters,
            cluster_id=catalog.cluster_id,
            node_id=settings.node_id,
            advertised=("", 0),
        )
        self._bring_upkeep(lake)
        log.info("recovered", topics=len(topics), batches_replayed=replayed)

    def _bring_lake(
        self, loop: asyncio.AbstractEventLoop, topics: Topics, wal: Wal
    ) -> Lake:
        lake_settings = self.settings.lake
        lake = Lake(
            self.directory.tables,
            call_soon=loop.call_soon_threadsafe,
            follow_ms=lake_settings.follow_ms,
            cold_cache_bytes=lake_settings.cold_cache_bytes,
            read_threads=lake_settings.read_threads,
            others_work=wal.is_busy,
        )
        lake.start(topics.all())
        self._ends.callback(lake.close)
        topics.watch(lake)
        return lake

    def _bring_upkeep(self, lake: Lake) -> None:
        broker, wal_settings = self.broker, self.settings.wal
        releaser = Releaser(
            broker.wal,
            table_end=lake.table_end,
            is_deleted=lambda number: broker.topics.by_number(number) is None,
            verified_ends=lake.verified_ends,
            before_release=broker.partitions.segment_released,
            clock=self._clock,
            keep_ms=wal_settings.keep_ms,
            idle_seal_ms=wal_settings.idle_seal_ms,
        )
        self._ends.callback(releaser.close)
        upkeep = Upkeep(broker, lake, releaser)
        upkeep.start()
        self._ends.push_async_callback(upkeep.close)

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        hub = Hub(
            Dispatcher(Registry.discover(), self.broker, "PLAINTEXT"),
            self.settings.network,
            loop=loop,
            clock=self._clock,
            timers=self.broker.timers,
            counters=self._counters,
        )
        listener = Listener(hub)
        host, port = _host_and_port(self.settings.listener)
        try:
            self.address = await listener.start(host, port)
        except OSError as error:
            raise StartRefused(
                f"cannot listen on {self.settings.listener}: "
                f"{error.strerror or error}; choose another --listener"
            ) from error
        self.broker.advertised = self._advertised()
        self._ends.push_async_callback(self._close_to_clients, listener)

    async def _close_to_clients(self, listener: Listener) -> None:
        """Start nothing more, answer what is open, then close connections."""
        listener.close()
        await self.broker.groups.close()
        await listener.drain(self.settings.network.drain_ms)

    def _advertised(self) -> tuple[str, int]:
        """Where clients are told to connect to; port 0 is the one that was chosen."""
        told = self.settings.advertised or self.settings.listener
        host, port = _host_and_port(told)
        if host in _EVERYWHERE:
            host = socket.gethostname()
            log.warning("clients are told this machine's name", advertised=host)
        return host, port or self.address[1]

    def _facts(self) -> dict[str, Any]:
        """What the status file says."""
        facts: dict[str, Any] = {
            "state": self._state,
            "pid": os.getpid(),
            "started_ms": self._started_ms,
            "node_id": self.settings.node_id,
            "problems": self._problems(),
            **self._counters.as_dict(API_NAMES),
        }
        if self._state != "starting":
            broker, (host, port) = self.broker, self.address
            segments = broker.wal.segments()
            facts |= {
                "kafka": f"{host}:{port}",
                "cluster_id": broker.cluster_id,
                "topics": len(broker.topics),
                "partitions": sum(1 for _ in broker.partitions),
                "waiting": len(broker.waits),
                "wal": {
                    "segments": len(segments),
                    "bytes": sum(segment.bytes for segment in segments),
                },
            }
        return facts

    def _problems(self) -> list[str]:
        problems = list(self._damage)
        if self._state != "starting" and self.broker.wal.trouble is not None:
            problems.append(f"nothing can be written: {self.broker.wal.trouble}")
        return problems


def run_broker(settings: Settings, announce: Callable[[str], None]) -> int:
    """Run a broker until SIGTERM or ctrl-C; its exit code.

    ``announce`` gets one line once clients can produce and consume. A second signal
    ends the process at once.
    """
    configure_logging(settings)
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
    _settle_garbage()
    host, port = node.broker.advertised
    tables = Path(node.directory.tables)
    log.info("serving", kafka=f"{host}:{port}", cluster_id=node.broker.cluster_id)
    announce(f"ready kafka={host}:{port} tables={tables}")
    # half a second that the first producer need not wait for
    await loop.run_in_executor(None, inspect.warm)
    await loop.run_in_executor(None, give_back_compiler)
    await stopping.wait()
    log.info("stopping")
    last = threading.Timer(STOP_S, os._exit, (1,))
    last.daemon = True
    last.start()
    await node.stop()
    log.info("stopped")


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


def _settle_garbage() -> None:
    """Look for garbage seldom, and never in what was loaded at start.

    The hot path makes no cycles; what makes some (tasks, exceptions) is rare.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the loop would have told on its own, as an event of our log."""
    error = context.get("exception")
    log.error(context.get("message", "unhandled"), exc_info=error or False)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
