"""``lakelog erase``: what somebody asked to be forgotten is kept nowhere any more."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import output
from broker.cli.failures import BadUsage, UserError
from broker.cli.options import Config, DataDir, Extra, Json, named, settings_of

if TYPE_CHECKING:
    from jobs.erasing.erase import Asked
    from jobs.erasing.records import Erasure


def erase(
    topic: Annotated[str, typer.Argument(help="The topic's name.", callback=named)],
    key: Annotated[
        str | None, typer.Option(help="All records with this key, as UTF-8 text.")
    ] = None,
    key_hex: Annotated[
        str | None, typer.Option(help="The same of a key in hexadecimal digits.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR",
            help="All records of which this is true: Spark SQL on the table's columns.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count them, and change nothing.")
    ] = False,
    timeout_s: Annotated[
        float,
        typer.Option("--timeout", min=0.0, help="Seconds to wait for others at most."),
    ] = 300.0,
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """Take records out of a topic, its table, the table's past and the log for good.

    Exit code 1 if anything may be left, with where; asking again goes on from there.
    What is produced meanwhile is not looked at. A row in lakelog_erasures tells.
    """
    directory = settings_of(data_dir, config, extra).data_dir
    asked = _asked(topic, key, key_hex, where)
    if not (directory / "catalog.db").exists():
        raise UserError(f"{directory} is not a data directory of Lakelog")
    if dry_run:
        output.rows(_counted(directory, asked), json)
        return
    done = _erased(directory, asked, timeout_s)
    said = {
        "topic": topic, "rows": sum(done.rows.values()),
        "files_deleted": done.files_deleted, "version": done.version_after,
        "digest": done.digest,
    }  # fmt: skip
    if json:
        by_partition = {str(p): rows for p, rows in done.rows.items()}
        more = {"partitions": by_partition, "proven": list(done.proven)}
        output.one(said | more | {"left": list(done.left)}, as_json=True)
    else:
        output.one(said, as_json=False)
        rows = [{"partition": p, "rows": n} for p, n in done.rows.items()]
        output.rows(rows, as_json=False)
        for sentence in done.proven:
            typer.echo(f"PROVEN {sentence}")
    if done.left:
        raise UserError("; ".join(done.left))


def _asked(
    topic: str, key: str | None, key_hex: str | None, where: str | None
) -> "Asked":
    from jobs.erasing.erase import Asked

    if sum(one is not None for one in (key, key_hex, where)) != 1:
        raise BadUsage("one of --key, --key-hex and --where says what to erase")
    if where is not None:
        return Asked(topic, where=where)
    try:
        named = bytes.fromhex(key_hex) if key is None else key.encode()  # type: ignore[arg-type]
    except ValueError:
        raise BadUsage(f"{key_hex!r} is not in hexadecimal digits") from None
    return Asked(topic, key=named)


def _counted(data_dir: Path, asked: "Asked") -> list[dict[str, object]]:
    from jobs.erasing.erase import dry_run

    try:
        return [dict(one._asdict()) for one in dry_run(data_dir, asked)]
    except _errors() as error:
        raise UserError(_sentence(error)) from None


def _erased(data_dir: Path, asked: "Asked", timeout_s: float) -> "Erasure":
    from jobs.erasing.erase import run

    try:
        return run(data_dir, asked, timeout_s)
    except _errors() as error:
        raise UserError(_sentence(error)) from None


def _errors() -> tuple[type[Exception], ...]:
    from deltalake.exceptions import DeltaError

    from broker.catalog.errors import CatalogError
    from jobs.erasing.table import NotErased
    from jobs.extent import NoSuchTopic, NotInTime, Stuck
    from jobs.session import SparkSaid
    from lakehouse.errors import LakehouseError

    return (
        NotErased, NoSuchTopic, NotInTime, Stuck, CatalogError, LakehouseError,
        DeltaError, SparkSaid, OSError,
    )  # fmt: skip


def _sentence(error: Exception) -> str:
    """What Spark says has a plan behind it."""
    return str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
