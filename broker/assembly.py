"""One wiring of a broker's parts, whatever they stand on.

The problem: a broker on a disk, a broker on a disk that forgets, and one whose time is
moved by hand should be the same broker, or a test shows something that nobody runs. The
idea: what differs is handed in as `Surroundings` (files, clock, timers, loop, threads,
tables, chance); everything between the data directory and the network is made and
joined here, once, and puts its end on a stack, so that the ends come in reverse order
and a start that fails half way leaves nothing behind.

Three steps, in this order: `assemble` recovers and makes the parts, `bring_maintenance`
begins what happens now and then, `listen` lets clients come.
"""

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import structlog

from broker.catalog import topics as stored_topics
from broker.catalog.catalog import Catalog
from broker.catalog.dynamic_configs import Resource
from broker.clock import Clock
from broker.dispatch.dispatcher import Dispatcher
from broker.dispatch.registry import Registry
from broker.lake.segment_carry import SegmentCarry
from broker.lake.segment_retention import SegmentRetention
from broker.network.hub import Hub
from broker.network.listener import Listener
from broker.runtime.configs.dynamic_configs import DynamicConfigs
from broker.runtime.configs.features import TRANSACTION_VERSION, Features
from broker.runtime.configs.layers import Kind
from broker.runtime.coordination.coordinator import Coordinator
from broker.runtime.coordination.markers import Markers
from broker.runtime.coordination.producer_ids import ProducerIds
from broker.runtime.coordination.transactions import TransactionCoordinator, limits_of
from broker.runtime.partitions.coverage import may_hold_missing
from broker.runtime.partitions.fetch_sessions import ServedSessions
from broker.runtime.partitions.inspector import Inspector
from broker.runtime.partitions.overdue import Overdue
from broker.runtime.partitions.partitions import Partitions
from broker.runtime.partitions.released_ends import ReleasedEnds
from broker.runtime.partitions.restore import Stored, restore
from broker.runtime.ports import Tables
from broker.runtime.process.maintenance import MaintenanceScheduler, stuck_after_ms
from broker.runtime.process.status import Counters
from broker.runtime.process.telemetry import Telemetry
from broker.runtime.services import Broker
from broker.runtime.topics.config_describe import topic_config
from broker.runtime.topics.topics import Topics
from broker.settings import Settings
from broker.storage.files import Files
from broker.storage.recovery import Recovery
from broker.storage.wal import Wal
from broker.threads import SYSTEM_THREADS, Threads
from broker.timing.delayed import DelayedOperations, Timers

log = structlog.get_logger("lakelog.broker")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a broker stands on and does not make itself.

    ``tables`` is called once with the write-ahead log, and gives what is then started
    and closed here. ``chance`` gives so many random bytes, for ids; members of groups
    get UUIDs made of them unless ``new_member_id`` makes others.
    """

    loop: asyncio.AbstractEventLoop
    files: Files
    clock: Clock
    timers: Timers
    tables: Callable[[Wal], Tables]
    threads: Threads = SYSTEM_THREADS
    chance: Callable[[int], bytes] = os.urandom
    new_member_id: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True)
class Assembly:
    """A broker's parts, and what was found when they were brought up."""

    broker: Broker
    tables: Tables
    recovery: Recovery
    surroundings: Surroundings


def assemble(
    settings: Settings,
    around: Surroundings,
    ends: contextlib.AsyncExitStack,
    counters: Counters | None = None,
) -> Assembly:
    """Recover what is in ``settings.data_dir`` and make every part. Blocks.

    Raises CatalogError, OSError; what was made until then is on ``ends``.
    """
    counters = counters or Counters()
    catalog = Catalog.open(
        settings.data_dir / "catalog.db", chance=around.chance, threads=around.threads
    )
    ends.callback(catalog.close)
    inspector = Inspector(around.clock.now_ms)
    sealed: list[Callable[[], None]] = []
    wal, recovery = _open_wal(settings, around, inspector, sealed)
    ends.callback(wal.close)
    configs, features = _bring_configs(settings, catalog)
    topics = _bring_topics(
        settings, around, catalog, lambda: configs.layers.topic_defaults
    )
    tables = around.tables(wal)
    tables.start(topic for topic in topics.all() if topic.stored)
    ends.callback(tables.close)
    topics.watch(tables)
    purgatory = DelayedOperations(around.timers)
    overdue = Overdue(wal, around.clock, settings.wal.waiting_bytes_max)
    partitions = Partitions(
        topics,
        wal,
        tables,
        purgatory,
        inspector,
        counters,
        config_of=lambda topic: topic_config(topic, configs.layers),
        call_soon=around.loop.call_soon,
        overdue=overdue,
        released_ends=ReleasedEnds(catalog),
    )
    replayed = _restore(partitions, topics, recovery, catalog, tables, around)
    sealed.append(partitions.begin_checkpoint)
    ends.callback(partitions.checkpoint)
    groups = _bring_groups(settings, around, catalog, topics)
    transactions = _bring_transactions(settings, around, catalog, partitions, groups)
    log.info("recovered", topics=len(topics), batches_replayed=replayed)
    broker = Broker(
        settings=configs.layers.settings,
        clock=around.clock,
        timers=around.timers,
        catalog=catalog,
        topics=topics,
        partitions=partitions,
        groups=groups,
        transactions=transactions,
        producer_ids=ProducerIds(catalog),
        lake=tables,
        wal=wal,
        purgatory=purgatory,
        fetch_sessions=_new_sessions(settings, around),
        counters=counters,
        configs=configs,
        features=features,
        telemetry=Telemetry(around.chance),
        cluster_id=catalog.cluster_id,
        node_id=settings.node_id,
        advertised=("", 0),
    )
    _let_clients_change(broker)
    return Assembly(broker, tables, recovery, around)


def _restore(
    partitions: Partitions,
    topics: Topics,
    recovery: Recovery,
    catalog: Catalog,
    tables: Tables,
    around: Surroundings,
) -> int:
    """Give the partitions what was recovered; returns the count of its batches."""
    ends = partitions.released_ends
    stored = Stored(catalog.read(stored_topics.load_log_starts), ends.load())
    now_ms = around.clock.now_ms()
    replayed = restore(partitions, topics, recovery, stored, tables, now_ms)
    ends.note_found(partitions, stored.released_ends)
    for number in tables.take_changed():  # segments may have what is there no more
        partitions.read_from_table(number)
    for partition in partitions:
        partitions.note_open(partition)
    partitions.checkpoint()  # recovered segments can be released behind it
    return replayed


def bring_maintenance(
    assembly: Assembly, ends: contextlib.AsyncExitStack
) -> MaintenanceScheduler:
    """Begin what happens now and then: releases, retention, forgetting."""
    broker, tables = assembly.broker, assembly.tables
    wal_settings = broker.settings.wal
    segment_retention = bring_segment_retention(broker, tables)
    ends.callback(segment_retention.close)
    segment_carry = SegmentCarry(
        broker.wal,
        segment_retention,
        part_of=broker.partitions.part_of,
        unreadable=lambda: tables.unreadable_topics().keys(),
        moved=broker.partitions.segments_carried,
        clock=broker.clock,
        held_ms=stuck_after_ms(broker.settings.lake),
        segment_bytes=wal_settings.segment_bytes,
    )
    maintenance = MaintenanceScheduler(broker, tables, segment_retention, segment_carry)
    maintenance.start()
    overdue = broker.partitions.overdue
    overdue.start(broker.timers)
    ends.callback(overdue.close)
    ends.push_async_callback(maintenance.close)
    ends.callback(segment_carry.close)
    return maintenance


def bring_segment_retention(broker: Broker, tables: Tables) -> SegmentRetention:
    """What lets segments go; who makes it closes it."""
    wal_settings, partitions = broker.settings.wal, broker.partitions

    async def may_hold(sequences: Set[int]) -> Set[int]:
        if not partitions.is_all_known():
            return sequences  # nobody knows what those lack that wait for their tables
        return await may_hold_missing(sequences, partitions, tables)

    return SegmentRetention(
        broker.wal,
        table_end=tables.table_end,
        is_deleted=lambda number: broker.topics.by_number(number) is None,
        verified_ends=tables.verified_ends,
        lacking=tables.lacking,
        unverified=tables.unverified,
        log_start=partitions.needed_from,
        may_hold_missing=may_hold,
        note_ends=partitions.released_ends.note,
        before_release=partitions.segment_released,
        clock=broker.clock,
        keep_ms=wal_settings.keep_ms,
        idle_seal_ms=wal_settings.idle_seal_ms,
        cache_bytes=wal_settings.cache_bytes if wal_settings.keep_ms else 0,
    )


async def listen(
    assembly: Assembly, host: str, port: int, ends: contextlib.AsyncExitStack
) -> tuple[tuple[str, int], Hub]:
    """Let clients come; the address that was bound (port 0 chooses a free one), and
    what its connections share.

    Raises OSError: the address cannot be had.
    """
    broker, around = assembly.broker, assembly.surroundings
    switches = ("telemetry",) if broker.settings.telemetry.enabled else ()
    hub = Hub(
        Dispatcher(Registry.discover(switches=switches), broker, "PLAINTEXT"),
        broker.settings.network,
        loop=around.loop,
        clock=around.clock,
        timers=around.timers,
        counters=broker.counters,
    )
    broker.wal.together = hub.together

    async def limits_changed(_: Resource) -> None:
        hub.limits = broker.settings.network

    broker.configs.watch(limits_changed)
    listener = Listener(hub)
    address = await listener.start(host, port)
    ends.push_async_callback(_close_to_clients, broker, listener)
    return address, hub


async def _close_to_clients(broker: Broker, listener: Listener) -> None:
    """Start nothing more, answer what is open, then close connections."""
    listener.close()
    await broker.transactions.close()  # it changes offsets of groups
    await broker.groups.close()
    await listener.drain(broker.settings.network.drain_ms)


def _bring_configs(
    settings: Settings, catalog: Catalog
) -> tuple[DynamicConfigs, Features]:
    configs = DynamicConfigs(catalog, settings)
    configs.load()
    features = Features(catalog, settings.node_id)
    features.load()
    return configs, features


def _bring_topics(
    settings: Settings,
    around: Surroundings,
    catalog: Catalog,
    defaults: Callable[[], Mapping[str, str]],
) -> Topics:
    topics = Topics(
        catalog,
        around.clock,
        partitions_max=settings.broker.partitions_max,
        new_id=lambda: around.chance(16),
        defaults=defaults,
        further=settings.lake.further.keys(),
    )
    topics.load(catalog.read(stored_topics.load))
    return topics


def _let_clients_change(broker: Broker) -> None:
    """What holds follows what clients configure, from the first moment on."""

    async def configured(resource: Resource) -> None:
        if resource[0] == Kind.BROKER:
            broker.settings = broker.configs.layers.settings
            await broker.partitions.configure()
        if resource[0] == Kind.CLIENT_METRICS:
            broker.telemetry.version += 1

    def finalized() -> None:
        version = broker.features.level(TRANSACTION_VERSION)
        broker.transactions.limits = replace(
            broker.transactions.limits, version=version
        )

    broker.configs.watch(configured)
    broker.features.on_change = finalized
    finalized()


def _open_wal(
    settings: Settings,
    around: Surroundings,
    inspector: Inspector,
    sealed: list[Callable[[], None]],
) -> tuple[Wal, Recovery]:
    """``sealed``: what is called, on the loop, when a segment was sealed."""
    wal_settings = settings.wal
    # Both return a handle, of no use here.
    call_soon: Any = around.loop.call_soon_threadsafe
    next_turn: Any = around.loop.call_soon
    wal, recovery = Wal.open(
        around.files,
        settings.data_dir / "wal",
        call_soon=call_soon,
        next_turn=next_turn,
        segment_bytes=wal_settings.segment_bytes,
        inspect=inspector,
        spare_segments=wal_settings.spare_segments,
        free_segments_max=wal_settings.free_segments_max,
        hot_bytes=wal_settings.hot_bytes,
        low_space_bytes=wal_settings.low_space_bytes,
        on_sealed=lambda _: _call_all(sealed),
        clock=around.clock,
        threads=around.threads,
        sync=wal_settings.sync == "always",
    )
    if recovery.torn:
        log.warning("an unfinished write was cut off", what=recovery.torn)
    for damage in recovery.damage:
        log.error("the write-ahead log is damaged", what=damage)
    return wal, recovery


def _call_all(callbacks: list[Callable[[], None]]) -> None:
    for callback in callbacks:
        callback()


def _new_sessions(settings: Settings, around: Surroundings) -> ServedSessions:
    return ServedSessions(
        settings.broker, around.clock, around.chance, around.loop.call_soon
    )


def _bring_groups(
    settings: Settings, around: Surroundings, catalog: Catalog, topics: Topics
) -> Coordinator:
    def random_id() -> str:
        return str(uuid.UUID(bytes=around.chance(16), version=4))

    groups = Coordinator(
        catalog,
        around.timers,
        around.clock,
        settings,
        topics,
        new_id=around.new_member_id or random_id,
    )
    groups.load()
    return groups


def _bring_transactions(
    settings: Settings,
    around: Surroundings,
    catalog: Catalog,
    partitions: Partitions,
    groups: Coordinator,
) -> TransactionCoordinator:
    """What was decided before goes on to be carried out."""
    markers = Markers(partitions, groups.offsets, around.timers, around.clock)
    transactions = TransactionCoordinator(
        catalog, around.timers, around.clock, limits_of(settings), markers
    )
    transactions.load()
    return transactions
