"""The bytes of keys, values and headers as clients write them in JSON."""

import base64
import binascii
import json
from typing import Any

from admin_api.problems import Problem
from admin_api.records.schemas import DataType, ProduceData, ProduceHeader

NO_REGISTRY = (
    "There is no schema registry: say type BINARY (base64), STRING or JSON, "
    "and no schema."
)


def encode(data: ProduceData | None, field: str) -> bytes | None:
    """The bytes of a key or value; None for null. Raises Problem 42207."""
    if data is None:
        return None
    if data.type not in _ENCODERS or data.wants_schema:
        raise Problem(42207, f"{field}: {NO_REGISTRY}")
    if data.data is None:
        return None
    return _ENCODERS[data.type](data.data, field)


def header(entry: ProduceHeader) -> tuple[str, bytes | None]:
    """A header as librdkafka takes it. Raises Problem 42207 for what is not base64."""
    if entry.value is None:
        return entry.name, None
    return entry.name, _binary(entry.value, f"headers.{entry.name}")


def _binary(data: Any, field: str) -> bytes:
    if not isinstance(data, str):
        raise Problem(42207, f"{field}: data of type BINARY is base64 in a string.")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(42207, f"{field}: data is not a valid base64 string.") from None


def _string(data: Any, field: str) -> bytes:
    if not isinstance(data, str):
        raise Problem(42207, f"{field}: data of type STRING is a string.")
    return _utf8(data, field)


def _json(data: Any, field: str) -> bytes:
    try:
        text = json.dumps(
            data, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
    except (ValueError, RecursionError):
        raise Problem(
            42207, f"{field}: a number is not finite, or it is nested too deeply."
        ) from None
    return _utf8(text, field)


def _utf8(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Problem(42207, f"{field}: half of a surrogate pair is no text.") from None


_ENCODERS = {
    DataType.BINARY: _binary,
    DataType.STRING: _string,
    DataType.JSON: _json,
}
