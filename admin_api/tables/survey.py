"""A table from all who know something of it: log, catalog, broker, compactor.

The Delta log and the catalog are always there. Of the broker nothing is known while it
does not answer, and that is said; of the compactor nothing while its status is stale.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from confluent_kafka import KafkaException

from admin_api.kafka import Kafka, Watermarks
from admin_api.lake import Lake
from admin_api.problems import of_kafka
from admin_api.resources import Metadata
from admin_api.status import StatusFiles
from admin_api.tables.columns import columns_of
from admin_api.tables.facts import FactsReader, Files, TableFacts
from admin_api.tables.schemas import (
    Compaction,
    Table,
    TablePartition,
    TableProtocol,
    TableSummary,
)
from broker.status.schema import CompactorStatus
from broker.topics.topic import Topic

BROKER_TIMEOUT_S: Final = 3.0
"""A table can be shown without the broker, so it is not waited for any longer, but"""
PARTITIONS_A_SECOND: Final = 2_000
"""for a second more for so many partitions."""
UNAVAILABLE: Final = 503

Marks = Mapping[tuple[str, int], Watermarks]
Sources = tuple[Lake, FactsReader, Kafka, StatusFiles]
KnownSources = tuple[Lake, FactsReader, Kafka | None, StatusFiles]
"""Without a Kafka where it is known that no broker runs."""
NO_BROKER: Final = "no broker runs"


@dataclass(frozen=True, slots=True)
class Surveyed:
    """All that is known of a topic's table."""

    topic: Topic
    starts: Mapping[int, int]
    facts: TableFacts
    marks: Marks
    broker_problem: str | None
    compactor: CompactorStatus | None
    """Of its tables it may name this topic's only."""


async def survey(sources: KnownSources, names: Sequence[str]) -> list[Surveyed]:
    """The tables of the named topics that are there."""
    lake, reader, kafka, status = sources
    found = await lake.threads.run(_from_files, lake, reader, names)
    marks, problem = await _from_broker(kafka, [topic for topic, _, _ in found])
    compactor = await asyncio.to_thread(status.compactor)
    said = _by_topic(compactor)
    return [
        Surveyed(topic, starts, facts, marks, problem, said(topic.name))
        for topic, starts, facts in found
    ]


def _by_topic(
    compactor: CompactorStatus | None,
) -> Callable[[str], CompactorStatus | None]:
    """The compactor's words of a topic: else each partition of all looked through those
    of a thousand tables."""
    if compactor is None:
        return lambda _: None
    states = {state.topic: state for state in compactor.tables}
    named = {name: replace(compactor, tables=(one,)) for name, one in states.items()}
    others = replace(compactor, tables=())
    return lambda name: named.get(name, others)


def _from_files(
    lake: Lake, reader: FactsReader, names: Sequence[str]
) -> list[tuple[Topic, dict[int, int], TableFacts]]:
    found = lake.topics(list(names))
    return [(topic, starts, reader.of(topic)) for topic, starts in found]


async def _from_broker(
    kafka: Kafka | None, topics: Sequence[Topic]
) -> tuple[Marks, str | None]:
    """Where the logs reach; or why that is not known. Raises what else it answers."""
    if kafka is None:
        return {}, NO_BROKER
    wanted = [(topic.name, n) for topic in topics for n in range(topic.partitions)]
    patience_s = BROKER_TIMEOUT_S + len(wanted) / PARTITIONS_A_SECOND
    try:
        return await kafka.watermarks(wanted, patience_s), None
    except KafkaException as error:
        problem = of_kafka(error.args[0])
        if problem.status != UNAVAILABLE:
            raise
        return {}, problem.message


def summary(base: str, one: Surveyed) -> TableSummary:
    """A table in a few numbers."""
    partitions = partitions_of(one)
    lag = _sum([part.lag_records for part in partitions])
    compaction = _compaction(one)
    topic, facts = one.topic, one.facts
    return TableSummary(
        metadata=Metadata(self=f"{base}/v1/tables/{topic.name}"),
        topic_name=topic.name,
        topic_id=topic.id.hex(),
        location=facts.location,
        version=facts.version,
        rows=facts.files.rows if facts.ends_are_known else None,
        files=facts.files.count,
        bytes=facts.files.bytes,
        small_files=facts.files.small,
        lag_records=lag,
        lag_seconds=_lag_seconds(one, compaction, lag),
        compaction=compaction,
        problem=facts.problem,
        remarks=list(facts.remarks),
        broker_problem=one.broker_problem,
    )


def table(base: str, one: Surveyed) -> Table:
    """A table with its schema and its partitions."""
    protocol, metadata = one.facts.protocol, one.facts.metadata
    return Table(
        **dict(summary(base, one)),
        protocol=None
        if protocol is None
        else TableProtocol(
            min_reader_version=protocol.reader,
            min_writer_version=protocol.writer,
            reader_features=list(protocol.reader_features),
        ),
        columns=columns_of(metadata.schema_string) if metadata else [],
        properties=dict(metadata.configuration) if metadata else {},
        partitions=partitions_of(one),
    )


def partitions_of(one: Surveyed) -> list[TablePartition]:
    """Each partition of the topic."""
    return [_partition(one, number) for number in range(one.topic.partitions)]


def _partition(one: Surveyed, number: int) -> TablePartition:
    facts, marks = one.facts, one.marks.get((one.topic.name, number))
    start = marks.log_start if marks else one.starts.get(number, 0)
    end = max(start, facts.ends.get(number, 0)) if facts.ends_are_known else None
    lag = None
    if marks is not None and end is not None:
        lag = max(0, marks.last_stable_offset - end)
    files = facts.partitions.get(number, Files())
    return TablePartition(
        partition_id=number,
        log_start=start,
        table_end=end,
        last_stable_offset=marks.last_stable_offset if marks else None,
        high_watermark=marks.high_watermark if marks else None,
        lag_records=lag,
        lag_seconds=_partition_lag_seconds(one, number, lag),
        rows=files.rows if facts.ends_are_known else None,
        files=files.count,
        bytes=files.bytes,
    )


def _partition_lag_seconds(
    one: Surveyed, number: int, lag_records: int | None
) -> float | None:
    """By the compactor's word, which names what waits; None if it said nothing."""
    if lag_records == 0:
        return 0.0
    states = one.compactor.tables if one.compactor else ()
    for state in states:
        if state.topic == one.topic.name and number in state.lags_ms:
            return state.lags_ms[number] / 1000
    return None


def _sum(lags: Sequence[int | None]) -> int | None:
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None


def _compaction(one: Surveyed) -> Compaction | None:
    """A compactor names the tables that records wait for, and no others."""
    if one.compactor is None:
        return None
    for state in one.compactor.tables:
        if state.topic == one.topic.name:
            return Compaction(
                stuck=state.stuck,
                error=state.why or None,
                error_since_ms=state.since_ms or None,
                pending_bytes=state.pending_bytes,
                lag_ms=state.lag_ms,
            )
    return Compaction(
        stuck=False, error=None, error_since_ms=None, pending_bytes=0, lag_ms=0
    )


def _lag_seconds(
    one: Surveyed, compaction: Compaction | None, lag_records: int | None
) -> float | None:
    if lag_records == 0:
        return 0.0
    if compaction is None or (lag_records and not compaction.lag_ms):
        return None  # the compactor has not seen it yet, or names only others
    return compaction.lag_ms / 1000
