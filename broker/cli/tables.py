"""``lakelog compact | table | undelete | check``: tables, where they meet the log."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli import output
from broker.cli.failures import BadUsage, UserError
from broker.cli.options import Config, DataDir, Extra, Json, named, settings_of

HOLD_MS_MAX: Final = 86_400_000
_TIME: Final = re.compile(r"(\d{1,9})([smh])")
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000}

if TYPE_CHECKING:
    from pathlib import Path

    from jobs.extent import Extents, TopicExtent


def compact(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", callback=named)
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.0, help="Seconds to wait at most.")
    ] = 60.0,
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """Return when everything committed by now stands in the tables.

    Exit code 1 if it does not in time, or at once if that is stuck, with the reason.
    """
    settings = settings_of(data_dir, config, extra)
    with _extents(settings.data_dir) as extents:
        found = extents.compact(topics or [], timeout_s)
    output.rows([_row(extent) for extent in found], json)


def table(
    topic: Annotated[str, typer.Argument(help="The topic's name.", callback=named)],
    hold: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="For so long (90s, 10m, 2h) nothing is committed to it, so that its "
            "owner can change it; records wait in the log. A day at most.",
        ),
    ] = None,
    release: Annotated[
        bool,
        typer.Option(
            "--release", help="End all holds: of --hold, and of what was killed."
        ),
    ] = False,
    sql: Annotated[
        str | None,
        typer.Option(
            metavar="STATEMENT",
            help="Hold it, run this in a Spark of its own, and release it. The table "
            "goes by the topic's name, with _ for what is no letter or digit.",
        ),
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """A topic's table: path, Delta version, and how far each partition reaches.

    What is damaged is told beside what is known; the exit code is 1 then.
    """
    settings = settings_of(data_dir, config, extra)
    for_ms = millis(hold or "10m")
    if sql is not None:
        output.rows(_statement(settings.data_dir, topic, sql, for_ms), json)
        return
    with _extents(settings.data_dir) as extents:
        if release:
            extents.release(topic)
        if hold is not None:
            _hold(extents, settings.data_dir, topic, for_ms)
        [found] = extents.of([topic])
    partitions = [asdict(part) for part in found.partitions]
    head: dict[str, object] = {
        "topic": found.topic, "path": found.path, "version": found.version,
        "files": found.files, "file_bytes": found.file_bytes, **_files(found),
        "not_merged": found.not_merged, "remarks": list(found.remarks),
        "held_until_ms": found.held_until_ms,
        "problem": found.problem, **_state(settings.data_dir, found.topic),
    }  # fmt: skip
    if json:
        output.one(head | {"partitions": partitions}, as_json=True)
    else:
        head["remarks"] = "; ".join(found.remarks) or None
        if found.problem is None and head.get("why"):
            del head["problem"]  # its dash would deny the reason
        if head["not_merged"] and str(head["not_merged"]) in str(head.get("why")):
            del head["not_merged"]  # it is the reason itself
        output.one(head, as_json=False)
        output.rows(partitions, as_json=False)
    if found.problem:
        raise UserError(found.problem)


def undelete(
    topic: Annotated[str, typer.Argument(help="The topic's name.", callback=named)],
    topic_id: Annotated[
        str | None,
        typer.Option("--id", help="Of several: 32 hex digits, as its table is named."),
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """Bring a deleted topic back, with the records that its table has.

    Of several of that name it is the one deleted last that has a table. Nothing else
    may run on the data directory meanwhile.
    """
    from broker.catalog.errors import CatalogError
    from broker.clock import SystemClock
    from broker.storage.files import PosixFiles
    from jobs.undelete import NotUndeleted
    from jobs.undelete import undelete as bring_back

    directory = settings_of(data_dir, config, extra).data_dir
    _known(directory)
    try:
        found = bring_back(directory, topic, PosixFiles(), SystemClock(), topic_id)
    except (NotUndeleted, CatalogError, OSError) as error:
        raise UserError(str(error)) from None
    back = found.topic
    said = {"topic": topic, "id": back.id.hex(), "partitions": back.partitions}
    output.one(said | {"path": found.path}, json)


def check(
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """Read all of a data directory and verify it; exit code 1 on loss or damage."""
    from jobs.check import check_data_directory

    settings = settings_of(data_dir, config, extra)
    _known(settings.data_dir)
    report = check_data_directory(settings.data_dir)
    if json:
        sentences = {"problems": report.problems, "remarks": report.remarks}
        output.one({**report.counts, **sentences}, as_json=True)
    else:
        output.one(report.counts, as_json=False)
        for remark in report.remarks:
            typer.echo(f"REMARK {remark}")
        for problem in report.problems:
            typer.echo(f"PROBLEM {problem}")
        typer.echo("all is well" if not report.problems else "not well")
    raise typer.Exit(1 if report.problems else 0)


def _files(extent: "TopicExtent") -> dict[str, object]:
    """How many files a partition has at most, and how often their bytes were written;
    None where there is no table, or none that can be read."""
    from lakehouse.log.writes import written

    if extent.version is None:
        return dict.fromkeys(
            ("partition_files_max", "small_files", "write_amplification_percent")
        )
    return {
        "partition_files_max": max((p.files for p in extent.partitions), default=0),
        "small_files": sum(p.small_files for p in extent.partitions),
        "write_amplification_percent": written(extent.path).amplification_percent,
    }


def _state(data_dir: "Path", topic: str) -> dict[str, object]:
    """How the table stands, as the parts that run say; nothing if none of them does."""
    import time

    from broker.status import file
    from broker.status.schema import BrokerStatus, CompactorStatus

    now_s = time.time()  # noqa: TID251  (compared with the files' own times)
    statuses = (
        file.read(data_dir, CompactorStatus, now_s),
        file.read(data_dir, BrokerStatus, now_s),
    )
    if not any(statuses):
        return {}
    named = [
        state
        for status in statuses
        if status is not None
        for state in status.tables
        if state.topic == topic
    ]
    alone = [
        status.left_alone[topic]
        for status in statuses
        if isinstance(status, CompactorStatus) and topic in status.left_alone
    ]
    return ({"not_merged": alone[0]} if alone else {}) | {
        "readable": all(state.readable for state in named),
        "stuck": any(state.stuck for state in named),
        "why": _once([state.why for state in named if state.why]),
        "since_ms": min((s.since_ms for s in named if s.since_ms), default=None),
        "lag_ms": max((state.lag_ms for state in named), default=0),
    }


def _once(reasons: Sequence[str]) -> str | None:
    """These, but for those that another one holds: the compactor says the broker's
    reason as the end of its own."""
    all_ = list(dict.fromkeys(reasons))
    inside = {one for one in all_ for other in all_ if one != other and one in other}
    return "; ".join(one for one in all_ if one not in inside) or None


def millis(text: str) -> int:
    """``90s``, ``10m`` or ``2h``; raises BadUsage."""
    match = _TIME.fullmatch(text)
    found = int(match[1]) * _UNITS_MS[match[2]] if match else 0
    if not 0 < found <= HOLD_MS_MAX:
        raise BadUsage(f"{text!r} is no time between 1s and 24h")
    return found


def _hold(extents: "Extents", data_dir: "Path", topic: str, for_ms: int) -> None:
    from jobs.owners.statement import hold

    hold(extents, data_dir, topic, for_ms)


def _statement(
    data_dir: "Path", topic: str, sql: str, for_ms: int
) -> list[dict[str, object]]:
    from jobs.owners.statement import run_statement
    from jobs.session import SparkSaid

    with _extents(data_dir):
        try:
            return run_statement(data_dir, topic, sql, for_ms)
        except SparkSaid as error:
            raise UserError(str(error)) from None


def _known(data_dir: "Path") -> None:
    if not (data_dir / "catalog.db").exists():
        raise UserError(f"{data_dir} is not a data directory of Lakelog")


@contextmanager
def _extents(data_dir: "Path") -> "Iterator[Extents]":
    from broker.catalog.errors import CatalogError
    from broker.storage.segment import StaleSegment
    from jobs.extent import Extents, NoSuchTopic, NotInTime, Stuck

    _known(data_dir)
    try:
        with closing(Extents(data_dir)) as extents:
            yield extents
    except (NoSuchTopic, NotInTime, Stuck, CatalogError, OSError) as error:
        raise UserError(str(error)) from None
    except StaleSegment:
        raise UserError("segments went while they were read; try again") from None


def _row(extent: "TopicExtent") -> dict[str, object]:
    ends = {part.partition: part.table_end for part in extent.partitions}
    return {"topic": extent.topic, "version": extent.version, "table_ends": ends}
