"""``lakelog up | broker | compactor``: the parts, together or each alone."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import structlog
import typer
import uvloop

from broker.cli.admin import admin_socket
from broker.cli.announce import announce, say
from broker.cli.failures import UserError
from broker.cli.interrupts import end_at_interrupt
from broker.cli.options import (
    Admin,
    Advertised,
    Config,
    DataDir,
    Extra,
    Insecure,
    Listener,
    settings_of,
)
from broker.cli.supervisor import Supervisor, die_with_parent, restarts
from broker.memory import choose_allocators
from broker.settings import Settings
from jobs.java import JAVA_WANTED, NO_JAVA, java_found

log = structlog.get_logger("lakelog.compactor")
log_of_up = structlog.get_logger("lakelog.up")


def up(
    data_dir: DataDir = None,
    listener: Listener = None,
    advertised: Advertised = None,
    admin: Admin = None,
    config: Config = None,
    extra: Extra = None,
    no_compactor: Annotated[
        bool, typer.Option("--no-compactor", help="Tables are not written.")
    ] = False,
    no_admin: Annotated[
        bool, typer.Option("--no-admin", help="No REST plane.")
    ] = False,
    insecure: Insecure = False,
) -> None:
    """A broker, a compactor with an embedded Spark, and the admin plane."""
    end_at_interrupt()
    from broker.runtime.process.logging import configure_logging

    settings = settings_of(
        data_dir, config, extra, listener=listener, advertised=advertised, admin=admin
    )
    if not no_admin:
        _check_addresses(settings)
    configure_logging(settings)
    if not no_admin:
        admin_socket(settings, insecure=insecure).close()
    compactor = not no_compactor
    if compactor and not java_found():
        log_of_up.warning("Kafka is served, tables are not written", why=NO_JAVA)
        compactor = False
    shared = _shared(data_dir, listener, advertised, admin, config, extra)
    flags = ["--insecure"] if insecure else []
    supervisor = Supervisor(
        shared, not no_admin, compactor, say, flags, announce=announce
    )
    raise typer.Exit(uvloop.run(supervisor.run()))


def _check_addresses(settings: Settings) -> None:
    """Raise UserError if Kafka and the plane would listen at one place: the second of
    them would be started again and again."""
    if settings.listener == settings.admin and not settings.admin.endswith(":0"):
        raise UserError(
            f"{settings.admin} cannot be both --listener and --admin; "
            "choose another --admin"
        )


def broker(
    data_dir: DataDir = None,
    listener: Listener = None,
    advertised: Advertised = None,
    admin: Admin = None,
    config: Config = None,
    extra: Extra = None,
) -> None:
    """The broker alone."""
    end_at_interrupt()
    die_with_parent()
    choose_allocators()
    from broker.node import run_broker

    settings = settings_of(
        data_dir, config, extra, listener=listener, advertised=advertised, admin=admin
    )
    raise typer.Exit(run_broker(settings, announce))


def compactor(
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    master: Annotated[
        str, typer.Option("--master", help="Any Spark master.")
    ] = "local[*]",
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", help="key=value: any option of Spark's; repeatable."),
    ] = None,
    listener: Annotated[str | None, typer.Option("--listener", hidden=True)] = None,
    advertised: Annotated[str | None, typer.Option("--advertised", hidden=True)] = None,
    admin: Annotated[str | None, typer.Option("--admin", hidden=True)] = None,
) -> None:
    """The compactor alone: write-ahead segments into Delta tables."""
    die_with_parent()
    del listener, advertised, admin  # `up` hands the same options to every part
    settings, options = settings_of(data_dir, config, extra), _spark_options(conf)
    if not java_found():
        raise UserError(JAVA_WANTED)
    from broker.catalog.errors import CatalogError
    from broker.runtime.process.logging import configure_logging
    from broker.storage.warehouse import DirectoryRefused
    from jobs.driver import WorkersRefused, run
    from jobs.session import SparkEnded, SparkMissing

    spark_log = settings.data_dir / "run" / "spark.log"
    try:
        _redirect_output(spark_log)
    except OSError as error:
        raise UserError(f"{settings.data_dir}: {error.strerror}") from None
    configure_logging(settings)
    try:
        with _internal(settings):
            raise typer.Exit(
                run(
                    settings,
                    master=master,
                    announce=announce,
                    options=options,
                    restarts=restarts(),
                )
            )
    except SparkEnded:
        raise UserError(f"Spark did not start: {spark_log} says why") from None
    except (SparkMissing, CatalogError, DirectoryRefused, WorkersRefused) as error:
        raise UserError(str(error)) from None


def _spark_options(given: list[str] | None) -> dict[str, str]:
    found = {}
    for item in given or []:
        key, equals, text = item.partition("=")
        if not (equals and key.startswith("spark.")):
            raise UserError(f"--conf {item}: spark.KEY=VALUE is wanted")
        found[key] = text
    return found


@contextmanager
def _internal(settings: Settings) -> Iterator[None]:
    """Let the admin plane ask the compactor, and change what it logs; without it the
    compactor works all the same."""
    from broker.runtime.process.internal import InternalEndpoint
    from broker.runtime.process.internal_places import place_of_compactor
    from broker.runtime.process.levels import OF_COMPACTOR
    from broker.runtime.process.logging import levels
    from broker.status.secret import SecretUnusable

    place = place_of_compactor(settings.data_dir / "run", settings.internal)
    endpoint = InternalEndpoint(
        place, {}, levels, lambda asked: asked(), loggers=OF_COMPACTOR
    )
    try:
        endpoint.start()
    except (OSError, SecretUnusable) as error:
        log.warning("there is no internal endpoint", why=str(error))
    try:
        yield
    finally:
        endpoint.close()


def _redirect_output(log: Path) -> None:
    """Give a JVM that is started from now on a file as its standard error.

    Spark greets there before any setting of its is read; what we say ourselves goes
    where it went.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)


def _shared(
    data_dir: Path | None,
    listener: str | None,
    advertised: str | None,
    admin: str | None,
    config: Path | None,
    extra: list[str] | None,
) -> list[str]:
    """The options of ``up``, to be handed to its children."""
    named = {
        "--data-dir": data_dir,
        "--listener": listener,
        "--advertised": advertised,
        "--admin": admin,
        "--config": config,
    }
    given = [
        word
        for flag, value in named.items()
        if value is not None
        for word in (flag, str(value))
    ]
    return given + [word for item in extra or [] for word in ("-X", item)]
