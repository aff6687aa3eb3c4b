"""Values for any message at any version, made by hypothesis from its definition.

Only fields that travel in the version are filled, so that what is written and read
again must be equal. Some values are tamed, since the other libraries turn codes into
enumerations and milliseconds into dates.
"""

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

import kafka.protocol
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from broker.protocol.api_keys import VERSIONS, ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.schema import Definition, Field, Struct, definition

few = settings(
    max_examples=6,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)

# Every message of every version: (API, version, "request" or "response").
EVERY = [
    (ApiKey(key), version, side)
    for key, versions in VERSIONS.items()
    for version in versions
    for side in ("request", "response")
]

_TEXT = st.text(max_size=5) | st.just("a length of two bytes " * 8)
_BYTES = st.binary(max_size=5) | st.just(bytes(range(200)))
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def is_known_to_kio(case: tuple[Any, int, str]) -> bool:
    """Whether kio has a class for it: not for what Kafka 4 dropped.

    By kio's own list: its hundreds of modules are imported by who needs one.
    """
    key, version, side = case
    return EntityType[side] in schema_name_map[api_key_map[key]].get(version, ())


KNOWN_TO_KIO = [case for case in EVERY if is_known_to_kio(case)]


def kio_class(case: tuple[Any, int, str]) -> Any:
    """kio's class of what it knows."""
    key, version, side = case
    load = load_request_schema if side == "request" else load_response_schema
    return load(int(key), version)


class Buffer:
    """The part of a file that kio writes to."""

    def __init__(self, buffer: bytearray) -> None:
        self.buffer = buffer

    def write(self, data: bytes) -> int:
        self.buffer += data
        return len(data)


@cache
def kafka_python_classes() -> dict[str, Any]:
    """kafka-python's classes of messages, by name."""
    for package in ("admin", "consumer", "metadata", "producer"):
        path = f"{kafka.protocol.__path__[0]}/{package}"
        for module in pkgutil.iter_modules([path]):
            import_module(f"kafka.protocol.{package}.{module.name}")
    import_module("kafka.protocol.sasl")
    return {c.__name__: c for c in ApiMessage.__subclasses__()}


def name_of(case: tuple[ApiKey, int, str]) -> str:
    key, version, side = case
    return f"{key.name.lower()}-{side}-v{version}"


def api(key: ApiKey) -> Definition:
    return definition(key.name.lower())


def message_of(key: ApiKey, side: str) -> Struct:
    return api(key).request if side == "request" else api(key).response


def class_of(key: ApiKey, struct: Struct) -> type[Any]:
    module = import_module(f"broker.protocol.messages.{key.name.lower()}")
    found: type[Any] = getattr(module, struct.name)
    return found


def carried(struct: Struct, version: int) -> list[Field]:
    """The fields of a version, tagged ones last and by tag."""
    return [*struct.at(version), *struct.tagged_at(version)]


@cache
def messages(key: ApiKey, version: int, side: str) -> st.SearchStrategy[Any]:
    return _instances(key, message_of(key, side), version)


def _instances(key: ApiKey, struct: Struct, version: int) -> st.SearchStrategy[Any]:
    fields = {f.name: _values(key, f, version) for f in carried(struct, version)}
    return st.builds(class_of(key, struct), **fields)


def _values(key: ApiKey, field: Field, version: int) -> st.SearchStrategy[Any]:
    one = _elements(key, field, version)
    if field.array:
        one = st.lists(one, max_size=2)
        if field.type == "int32":
            one |= st.just(list(range(200)))
    if field.optional:
        assert isinstance(field.type, Struct)
        zero = class_of(key, field.type)()
        return st.none() | one.filter(lambda value: value != zero)
    return st.none() | one if version in field.null_versions else one


def _elements(key: ApiKey, field: Field, version: int) -> st.SearchStrategy[Any]:
    if isinstance(field.type, Struct):
        return _instances(key, field.type, version)
    if field.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if field.type == "int64" and field.name.endswith(("_ms", "timestamp")):
        return st.integers(0, 1 << 41)
    return _primitives(field.type)


def _primitives(type_: str) -> st.SearchStrategy[Any]:
    if type_ in _BITS:
        bits = _BITS[type_]
        return st.integers(-(1 << bits), (1 << bits) - 1)
    return {
        "uint16": st.integers(0, 65_535),
        "float64": st.floats(allow_nan=False, allow_infinity=False),
        "bool": st.booleans(),
        "string": _TEXT,
        "bytes": _BYTES,
        "records": _BYTES,
        "uuid": st.binary(min_size=16, max_size=16),
    }[type_]
