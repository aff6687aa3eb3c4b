"""Settings out of all places that give them.

Flags win over the environment, the environment over the file, the file over the
defaults. Kafka's own names are taken as well; what Kafka has and this broker has not is
told to who asks for the settings, never dropped in silence.
"""

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from broker.configuration.kafka_names import (
    KNOWN,
    READ_WITH_LISTENERS,
    TAKEN,
    name_in_kafka,
    plain,
)
from broker.configuration.kafka_values import from_kafka
from broker.configuration.sources import Given, given
from broker.setting_values import SettingsError
from broker.settings import Settings, keys


class Loaded(NamedTuple):
    """``without_effect``: names that Kafka knows and that mean nothing here."""

    settings: Settings
    without_effect: tuple[str, ...]


def load(
    flags: Mapping[str, Any] | None = None,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Settings from flags over environment over a file over defaults; as ``loaded``."""
    return loaded(flags, file, environment).settings


def loaded(
    flags: Mapping[str, Any] | None = None,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded:
    """The settings, and what was given with them to no effect.

    The file is TOML, or Java's properties if it is named so. The environment is the
    process's own unless another is given.

    Raises:
        SettingsError: a key is unknown, a value is none, or the file cannot be read.
    """
    environment = os.environ if environment is None else environment
    winners: dict[str, Given] = {}
    without_effect: set[str] = set()
    texts: dict[str, str] = {}
    for one in sorted(given(flags or {}, environment, file), key=_rank):
        name = name_in_kafka(one.name)
        texts[name or one.name] = str(one.value)
        key = _key_of(one, name)
        if key is not None:
            winners[key] = one
        elif name not in READ_WITH_LISTENERS:
            without_effect.add(name or one.origin)
    values = {key: _value_of(one, texts) for key, one in winners.items()}
    return Loaded(_validated(values, winners), tuple(sorted(without_effect)))


def _rank(one: Given) -> tuple[int, int]:
    """Places first; in one place Kafka's names win over ours, by their own order."""
    return one.place, _ORDER.get(name_in_kafka(one.name) or "", -1)


_ORDER: Final = {name: number for number, name in enumerate(TAKEN)}


def _value_of(one: Given, texts: Mapping[str, str]) -> Any:
    name = name_in_kafka(one.name)
    if name is None or name not in TAKEN:
        return one.value
    try:
        return from_kafka(name, one.value, texts)
    except ValueError as error:
        raise SettingsError(_sentence(one.name, one, str(error))) from error


_CANONICAL = {plain(key): key for key in keys()}


def _key_of(one: Given, name: str | None) -> str | None:
    """Our setting that is meant; None if there is none of what Kafka, or whoever else
    has this prefix, calls ``name``. Raises SettingsError for what nobody knows."""
    if name is not None and name in TAKEN:
        return TAKEN[name]
    if not one.is_foreign and plain(one.name) in _CANONICAL:
        return _CANONICAL[plain(one.name)]
    if name is not None:
        return None
    known = KNOWN if one.is_foreign else {**KNOWN, **_CANONICAL}
    cutoff = _MISTYPED if one.is_foreign else _RESEMBLES
    near = difflib.get_close_matches(plain(one.name), known, n=1, cutoff=cutoff)
    if one.is_foreign and not near:
        return None
    hint = f"; did you mean {known[near[0]]}?" if near else ""
    raise SettingsError(f"unknown setting {one.name!r} ({one.origin}){hint}")


_RESEMBLES: Final = 0.5
_MISTYPED: Final = 0.85
"""How like a name must be to one that is known, to be taken for it."""


def _validated(values: Mapping[str, Any], winners: Mapping[str, Given]) -> Settings:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        group, _, leaf = key.rpartition(".")
        (nested.setdefault(group, {}) if group else nested)[leaf] = value
    try:
        return Settings(**nested)
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(_refusal(first["loc"], first, winners)) from error


def _refusal(
    location: Iterable[int | str],
    error: Mapping[str, Any],
    winners: Mapping[str, Given],
) -> str:
    """The sentence: the key, by the name that Kafka has for it if that was used."""
    parts = [str(part) for part in location]
    key = next((key for key in (".".join(parts[:2]), parts[0]) if key in winners), "")
    one = winners[key]
    shown = one.name if name_in_kafka(one.name) in TAKEN else key
    text = error["msg"].removeprefix("Value error, ")
    return _sentence(shown, one, text)


def _sentence(shown: str, one: Given, text: str) -> str:
    """One line, whatever stands in the value or in what is said of it."""
    value = str(one.value)
    value = value if len(value) <= _SHOWN_MAX else f"{value[:_SHOWN_MAX]}..."
    said = f"{shown}={value} ({one.origin}): {text[: 2 * _SHOWN_MAX]}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in said)


_SHOWN_MAX: Final = 200
