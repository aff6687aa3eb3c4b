"""``lakelog sql | spark-conf | metastore``: the tables by name."""

import asyncio
import base64
import csv
import io
import json
import logging
import shlex
import signal
import sys
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from broker.cli import output
from broker.cli.announce import announce
from broker.cli.failures import UserError
from broker.cli.options import Config, DataDir, Extra, settings_of
from broker.cli.tables import millis

if TYPE_CHECKING:
    from jobs.sql import Answer

METASTORE_DEFAULT: Final = "127.0.0.1:9083"


class AnswerFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class ConfFormat(StrEnum):
    PROPERTIES = "properties"
    ARGS = "args"
    PYTHON = "python"
    SQL = "sql"


Listen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Where it listens.")
]
Metastore = Annotated[
    str,
    typer.Option(
        "--metastore", metavar="HOST:PORT", help="Where `lakelog metastore` listens."
    ),
]


def sql(
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="STATEMENT...",
            help="SQL, statements apart by ; each table is lakelog.TOPIC, and "
            "lakelog.tables says how far they are. -: from standard input.",
        ),
    ],
    answer_format: Annotated[
        AnswerFormat, typer.Option("--format", help="How answers are printed.")
    ] = AnswerFormat.TABLE,
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Statements may change tables, as DELETE, UPDATE and OPTIMIZE do: "
            "nothing is committed meanwhile to those that they name.",
        ),
    ] = False,
    hold: Annotated[
        str, typer.Option(metavar="TIME", help="For so long at most (90s, 10m, 2h).")
    ] = "10m",
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
) -> None:
    """Run SQL on the tables by their names, in a Spark of its own.

    The broker need not run. The first time it takes 87 MB from Maven Central.
    """
    directory = known_directory(data_dir, config, extra)
    hold_ms = millis(hold) if write else None
    _note_renamed(directory)
    from jobs.sql import statements

    wanted = [one for text in texts for one in statements(_given(text))]
    if wanted:
        _run(directory, wanted, answer_format, hold_ms)


def spark_conf(
    conf_format: Annotated[
        ConfFormat,
        typer.Option(
            "--format",
            help="properties: for spark-defaults.conf or --properties-file; args: for "
            "the command line; python: code; sql: statements that register the tables "
            "in a metastore of your own.",
        ),
    ] = ConfFormat.PROPERTIES,
    metastore: Metastore = METASTORE_DEFAULT,
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
) -> None:
    """Print what makes a Spark 4 know the tables: SELECT * FROM lakelog.TOPIC.

    It asks `lakelog metastore`, which has to run, so topics that come later are known
    too. With --format sql nothing of ours has to run, and later topics are not known.
    """
    is_sql = conf_format is ConfFormat.SQL
    if is_sql or data_dir is not None:  # else the metastore may be on another machine
        directory = known_directory(data_dir, config, extra)
    if is_sql:
        _note_renamed(directory)
        typer.echo("\n".join(_registered(directory)))
        return
    from jobs.sql import catalog_options

    typer.echo(conf_text(conf_format, catalog_options(metastore)))


def metastore(
    listen: Listen = METASTORE_DEFAULT,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let others than this machine ask.")
    ] = False,
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
) -> None:
    """Tell any Spark the tables by name, as a Hive metastore does; read-only.

    It says what topics are called, where their tables lie and how far they are.
    """
    directory = known_directory(data_dir, config, extra)
    from admin_api.access.exposure import ExposureRefused
    from admin_api.metastore import server

    try:
        bound = server.bind(listen, insecure=insecure)
    except ExposureRefused as error:
        raise UserError(str(error)) from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot listen on {listen}: {error}") from None

    async def serve() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        announce(f"ready metastore={server.address_of(bound)}")
        await server.Metastore(directory).serve(bound, stopped)

    asyncio.run(serve())


def known_directory(
    data_dir: Path | None, config: Path | None, extra: list[str] | None
) -> Path:
    """The data directory that the options name, which is one. Raises UserError."""
    directory = settings_of(data_dir, config, extra).data_dir
    if not (directory / "catalog.db").exists():
        raise UserError(f"{directory} is not a data directory of Lakelog")
    return directory


def _given(text: str) -> str:
    return sys.stdin.read() if text == "-" else text


def _topics(directory: Path) -> dict[str, str]:
    """Name in SQL -> topic."""
    from admin_api.lake import Lake
    from admin_api.metastore.names import table_names
    from broker.catalog.errors import CatalogError

    try:
        return table_names(Lake(directory).names())
    except CatalogError as error:
        raise UserError(str(error)) from None


def _note_renamed(directory: Path) -> None:
    """Say which topics are not called as they are: letters have no case in SQL."""
    for name, topic in sorted(_topics(directory).items()):
        if name != topic.lower():
            typer.echo(f"note: topic {topic} is lakelog.`{name}` in SQL", err=True)


def _registered(directory: Path) -> list[str]:
    from lakehouse.location import table_place, warehouse_of

    lines = ["CREATE DATABASE IF NOT EXISTS lakelog;"]
    for name, topic in sorted(_topics(directory).items()):
        place = table_place(warehouse_of(directory), topic)
        if Path(place, "_delta_log").is_dir():
            quoted = place.replace("\\", "\\\\").replace("'", "\\'")
            lines.append(
                f"CREATE TABLE IF NOT EXISTS lakelog.`{name}` USING DELTA "
                f"LOCATION '{quoted}';"
            )
    return lines


def conf_text(conf_format: ConfFormat, options: Mapping[str, str]) -> str:
    """The settings, for a file, a command line or a program."""
    if conf_format is ConfFormat.PROPERTIES:
        return "\n".join(f"{key} {value}" for key, value in options.items())
    if conf_format is ConfFormat.ARGS:
        return " ".join(
            f"--conf {shlex.quote(f'{key}={value}')}" for key, value in options.items()
        )
    lines = [f"    .config({key!r}, {value!r})" for key, value in options.items()]
    head = ["from pyspark.sql import SparkSession", "", "spark = (", "    SparkSession"]
    return "\n".join([*head, "    .builder", *lines, "    .getOrCreate()", ")"])


def _run(
    directory: Path, wanted: list[str], how: AnswerFormat, hold_ms: int | None
) -> None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from admin_api.metastore.server import beside
    from jobs.extent import NoSuchTopic, NotInTime
    from jobs.sql import OnlyRead, Writes, run, sql_session

    # What py4j raises, ctrl-C too, it tells there as well: with tracebacks.
    logging.getLogger().addFilter(lambda record: record.module != "java_gateway")
    with (
        tempfile.TemporaryDirectory() as aside,
        beside(directory) as address,
        sql_session(address, aside) as session,
    ):
        topics = partial(_topics, directory)
        try:
            for statement in wanted:
                show(run(session, statement, directory, topics, hold_ms), how)
        except Py4JJavaError as error:  # what pyspark has no class for: Hadoop's
            raise UserError(error.java_exception.toString()) from None
        except (PySparkException, Writes, OnlyRead, NoSuchTopic, NotInTime) as error:
            # Spark is asked what its errors say, and is gone behind this block.
            raise UserError(str(error).strip()) from None


def show(answer: "Answer", how: AnswerFormat) -> None:
    """Print what a statement gave; nothing if it gives nothing."""
    if not answer.columns:
        return
    if how is AnswerFormat.JSON:
        found = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        typer.echo(json.dumps(found, default=_plain))
        return
    rows = [[_text(value) for value in row] for row in answer.rows]
    if how is AnswerFormat.CSV:
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows([answer.columns, *rows])
        typer.echo(lines.getvalue(), nl=False)
    else:
        cells = [["-" if cell is None else cell for cell in row] for row in rows]
        output.columns(answer.columns, cells)


def _plain(value: Any) -> Any:
    """What JSON has no word for: bytes as text if they are, else in base64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat else str(value)


def _text(value: Any) -> str | None:
    """A cell; None: null."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        plain = _plain(value)
        return plain if isinstance(plain, str) else f"0x{value.hex()}"
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=_plain)
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat else str(value)
