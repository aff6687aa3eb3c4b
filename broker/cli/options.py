"""Options that several commands share, and how they become settings."""

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.failures import BadUsage
from broker.settings import Settings, load

DEFAULTS = Settings()

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help=f"Where all is kept; else {DEFAULTS.data_dir}."),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with settings.")
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
    list[str] | None, typer.Option("-X", help="key=value: any setting; repeatable.")
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
    """Settings from the flags of a command over environment, file and defaults."""
    flags = {key: value for key, value in named.items() if value is not None}
    if data_dir is not None:
        flags["data_dir"] = str(data_dir)
    return load(flags | dict(pairs(extra)), config)
