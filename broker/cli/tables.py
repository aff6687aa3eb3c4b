"""``lakelog compact | table | check``: the tables, where they meet the log."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import output
from broker.cli.failures import UserError
from broker.cli.options import Config, DataDir, Extra, Json, settings_of

if TYPE_CHECKING:
    from pathlib import Path

    from jobs.extent import Extents, TopicExtent


def compact(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...")] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.0)] = 60.0,
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """Return when everything committed by now stands in the tables."""
    settings = settings_of(data_dir, config, extra)
    with _extents(settings.data_dir) as extents:
        found = extents.compact(topics or [], timeout_s)
    output.rows([_row(extent) for extent in found], json)


def table(
    topic: Annotated[str, typer.Argument(help="The topic's name.")],
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """A topic's table: path, Delta version, and how far each partition reaches."""
    settings = settings_of(data_dir, config, extra)
    with _extents(settings.data_dir) as extents:
        [found] = extents.of([topic])
    partitions = [asdict(part) for part in found.partitions]
    head = {"topic": found.topic, "path": found.path, "version": found.version}
    if json:
        output.one(head | {"partitions": partitions}, as_json=True)
        return
    output.one(head, as_json=False)
    output.rows(partitions, as_json=False)


def check(
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """Read all of a data directory and verify it; exit code 1 on a problem."""
    from jobs.check import check_data_directory

    settings = settings_of(data_dir, config, extra)
    _known(settings.data_dir)
    report = check_data_directory(settings.data_dir)
    if json:
        output.one({**report.counts, "problems": report.problems}, as_json=True)
    else:
        output.one(report.counts, as_json=False)
        for problem in report.problems:
            typer.echo(f"PROBLEM {problem}")
        typer.echo("all is well" if not report.problems else "not well")
    raise typer.Exit(1 if report.problems else 0)


def _known(data_dir: "Path") -> None:
    if not (data_dir / "catalog.db").exists():
        raise UserError(f"{data_dir} is not a data directory of Lakelog")


@contextmanager
def _extents(data_dir: "Path") -> "Iterator[Extents]":
    from broker.catalog.errors import CatalogError
    from broker.storage.segment import StaleSegment
    from jobs.extent import Extents, NoSuchTopic, NotInTime
    from lakehouse.errors import LakehouseError

    _known(data_dir)
    try:
        with closing(Extents(data_dir)) as extents:
            yield extents
    except (NoSuchTopic, NotInTime, CatalogError, LakehouseError, OSError) as error:
        raise UserError(str(error)) from None
    except StaleSegment:
        raise UserError("segments went while they were read; try again") from None


def _row(extent: "TopicExtent") -> dict[str, object]:
    ends = {part.partition: part.table_end for part in extent.partitions}
    return {"topic": extent.topic, "version": extent.version, "table_ends": ends}
