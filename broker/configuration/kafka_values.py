"""Values in the form that they have in Kafka: minutes, lists of listeners, directories.

There is one listener here, without TLS and SASL. So of Kafka's lists the controllers'
listeners are left out, one must remain, and it must be PLAINTEXT: to serve in the clear
what was meant to be encrypted would be worse than not to start.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

Texts = Mapping[str, str]
"""What else was given, by Kafka's names."""

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
_LISTENER: Final = re.compile(r"([\w.-]+)://(\[[0-9a-fA-F:.%]+\]|[^\[\]:/,\s]*):(\d+)")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_EVERYWHERE: Final = ("0.0.0.0", "[::]")  # noqa: S104 - said of others


def from_kafka(name: str, value: Any, texts: Texts) -> Any:
    """The value of our setting.

    Raises:
        ValueError: it is none; the message says what is allowed.
    """
    convert = _CONVERSIONS.get(name)
    text = value.strip() if isinstance(value, str) else value
    return convert(text, texts) if convert else text


def _time(unit_ms: int, low: int) -> Callable[[Any, Texts], int]:
    """A whole number of units, as milliseconds; -1 stays what it is."""

    def convert(value: Any, _: Texts) -> int:
        text = str(value)
        if not re.fullmatch(r"[+-]?[0-9]{1,10}", text, re.ASCII) or int(text) < low:
            raise ValueError(f"should be a whole number of {low} or more")
        return int(text) * unit_ms if int(text) >= 0 else -1

    return convert


def _directory(value: Any, _: Texts) -> str:
    text = str(value)
    if "," in text or not text:
        raise ValueError("should be one directory")
    return text


def _listener(value: Any, texts: Texts) -> str:
    """Where to listen; no host is everywhere, as in Kafka."""
    host, port = _for_clients(value, texts)
    return f"{host or _EVERYWHERE[0]}:{port}"


def _advertised(value: Any, texts: Texts) -> str:
    host, port = _for_clients(value, texts)
    if host in ("", *_EVERYWHERE):
        raise ValueError("should name a host that clients can reach")
    return f"{host}:{port}"


def _for_clients(value: Any, texts: Texts) -> tuple[str, str]:
    """Host and port of the one listener that is no controller's."""
    controllers = _split(texts.get("controller.listener.names", ""))
    given = [_parts(one) for one in _split(str(value))]
    kept = [one for one in given if one[0].upper() not in map(str.upper, controllers)]
    if len(kept) != 1:
        raise ValueError("should be one listener for clients, as PLAINTEXT://HOST:PORT")
    name, host, port = kept[0]
    protocol = _protocol(name, texts.get("listener.security.protocol.map", ""))
    if protocol != "PLAINTEXT":
        raise ValueError(
            f"listener {name} speaks {protocol}, and only PLAINTEXT is served"
        )
    return host, port


def _parts(text: str) -> tuple[str, str, str]:
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise ValueError(f"should be NAME://HOST:PORT, not {text}")
    return match[1], match[2], match[3]


def _protocol(name: str, mapping: str) -> str:
    """The security of a listener: what it is mapped to, or its own name says."""
    protocols = {one: one for one in _PROTOCOLS}
    for pair in _split(mapping):
        listener, _, protocol = pair.partition(":")
        protocols[listener.strip().upper()] = protocol.strip().upper()
    found = protocols.get(name.upper())
    if found is None:
        raise ValueError(f"{name} is not in listener.security.protocol.map")
    return found


def _split(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


_CONVERSIONS: Final[Mapping[str, Callable[[Any, Texts], Any]]] = MappingProxyType(
    {
        "listeners": _listener,
        "advertised.listeners": _advertised,
        "log.dir": _directory,
        "log.dirs": _directory,
        "log.retention.hours": _time(HOUR_MS, -1),
        "log.retention.minutes": _time(MINUTE_MS, -1),
        "offsets.retention.minutes": _time(MINUTE_MS, 1),
    }
)
