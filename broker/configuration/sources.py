"""Flags, the environment and a file: what each of them gives, with its place.

Source of the environment's spelling: the wrapper in the Apache Kafka container image
(``_`` is a dot, ``__`` an underscore, ``___`` a dash), and the variables that it and
Kafka's scripts read themselves.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.configuration import properties
from broker.setting_values import SettingsError

ENVIRONMENT_PREFIX: Final = "LAKELOG_"
NOT_SETTINGS: Final = frozenset(
    {"LAKELOG_FAILPOINTS", "LAKELOG_PARENT", "LAKELOG_REPORTED", "LAKELOG_RESTARTS"}
)
"""Variables with our prefix that something else reads."""

KAFKA_PREFIX: Final = "KAFKA_"
_OF_TOOLS: Final = re.compile(
    r"KAFKA_(HOME|VERSION|MODE|DEBUG|CLASSPATH|CLUSTER_ID"
    r"|(\w+_)?OPTS|(TOOLS_)?LOG4J_\w+|JMX_\w+|DEBUG_\w+"
    r"|(\w+_)?SERVICE_(HOST|PORT)(_\w+)?|(\w+_)?PORT_\d+_(TCP|UDP)(_\w+)?|PORT)"
)
"""Read by Kafka's scripts and images; or Kubernetes', of a service named kafka."""


class Place(IntEnum):
    """Where a setting was found; the higher one wins."""

    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3


class Given(NamedTuple):
    """A setting as it was spelled. ``origin`` names its place for people;
    ``is_foreign``: its prefix is not ours, so it may be meant for others."""

    name: str
    value: Any
    origin: str
    place: Place
    is_foreign: bool = False


def given(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None
) -> Iterator[Given]:
    """Each setting that is given anywhere; what wins comes last.

    Raises:
        SettingsError: the file cannot be read.
    """
    if file is not None:
        for key, value in _read(file):
            yield Given(key, value, str(file), Place.FILE)
    for name, text in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX) and name not in NOT_SETTINGS:
            key = name.removeprefix(ENVIRONMENT_PREFIX)
            yield Given(key, text, name, Place.ENVIRONMENT)
        elif name.startswith(KAFKA_PREFIX) and not _OF_TOOLS.fullmatch(name):
            yield Given(_as_in_images(name), text, name, Place.ENVIRONMENT, True)
    for key, value in flags.items():
        yield Given(key, value, "flag", Place.FLAG)


def _as_in_images(name: str) -> str:
    """``KAFKA_NUM_PARTITIONS`` is ``num.partitions``."""
    text = name.removeprefix(KAFKA_PREFIX).lower().replace("_", ".")
    return text.replace("...", "-").replace("..", "_")


def _read(file: Path) -> Iterator[tuple[str, Any]]:
    try:
        content = file.read_bytes()
        if file.suffix == ".properties":
            return iter(properties.parse(properties.decode(content)).items())
        return _flat(tomllib.loads(content.decode("utf-8")))
    except (OSError, ValueError) as error:
        toml = isinstance(error, tomllib.TOMLDecodeError)
        hint = " (one in Java's format is named .properties)" if toml else ""
        raise SettingsError(
            f"cannot read the settings in {file}: {error}{hint}"
        ) from error


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
