"""Options that several commands share, and how they become settings."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer

from broker.cli.announce import REPORTED_VARIABLE
from broker.cli.failures import BadUsage
from broker.configuration.loading import loaded
from broker.settings import Settings

DEFAULTS = Settings()
PATHS = ("--data-dir", "--config")
"""Their values may be any bytes, as names of files may."""
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

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


def check_arguments(words: Sequence[str]) -> None:
    """Raises BadUsage for one that is not UTF-8 and no path: where it is to be sent
    libraries fail at it, some of them by the end of the process."""
    before = ""
    for word in words:
        is_path = before in PATHS or word.partition("=")[0] in PATHS
        if not (is_path or _is_text(word)):
            given = os.fsencode(word)
            raise BadUsage(f"arguments are UTF-8, but for paths, and not {given!r}")
        before = word


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:  # Python keeps such bytes as halves of surrogates
        return False
    return True


def named(topics: Any) -> Any:
    """What was given as a topic or as topics. Raises BadUsage for an empty name."""
    if topics == "" or (isinstance(topics, list) and "" in topics):
        raise BadUsage("a topic's name is empty: say which topic")
    return topics


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
