"""Options that several commands share, and how they become settings."""

import os
from pathlib import Path
from typing import Annotated

import structlog
import typer

from broker.cli.announce import REPORTED_VARIABLE
from broker.cli.failures import BadUsage
from broker.configuration.loading import loaded
from broker.settings import Settings

DEFAULTS = Settings()

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help=f"Where all is kept; else {DEFAULTS.data_dir}."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="A file with settings: TOML, or server.properties."),
]
Listener = Annotated[
    str | None,
    typer.Option("--listener", help=f"HOST:PORT for Kafka; else {DEFAULTS.listener}."),
]
Advertised = Annotated[
    str | None,
    typer.Option("--advertised", help="HOST:PORT told to clients; else the listener."),
]
Admin = Annotated[
    str | None,
    typer.Option("--admin", help=f"HOST:PORT for REST; else {DEFAULTS.admin}."),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", help="Let the admin plane be open to others without tokens."
    ),
]
Extra = Annotated[
    list[str] | None,
    typer.Option("-X", help="key=value: any setting, ours or Kafka's; repeatable."),
]
Bootstrap = Annotated[
    str, typer.Option("--bootstrap", help="HOST:PORT of a running broker.")
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]

BOOTSTRAP_DEFAULT = DEFAULTS.listener


def pairs(items: list[str] | None, what: str = "-X") -> list[tuple[str, str]]:
    """``["a=1"]`` as pairs; raises BadUsage for an item without ``=``."""
    found = []
    for item in items or []:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise BadUsage(f"{what} takes key=value, not {item!r}")
        found.append((key.strip(), value))
    return found


def settings_of(
    data_dir: Path | None = None,
    config: Path | None = None,
    extra: list[str] | None = None,
    **named: str | None,
) -> Settings:
    """Settings from the flags of a command over environment, file and defaults.

    What was given of Kafka's without effect here is told once, in the log: not again
    by the parts that ``lakelog up`` starts.
    """
    flags = {key: value for key, value in named.items() if value is not None}
    if data_dir is not None:
        flags["data_dir"] = str(data_dir)
    settings, without_effect = loaded(flags | dict(pairs(extra)), config)
    if without_effect and REPORTED_VARIABLE not in os.environ:
        _warn(settings, without_effect)
    return settings


def _warn(settings: Settings, names: tuple[str, ...]) -> None:
    from broker.runtime.process.logging import configure_logging

    configure_logging(settings)
    structlog.get_logger("lakelog").warning(
        "settings that have no effect here", names=", ".join(names)
    )
