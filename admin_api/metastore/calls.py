"""What is answered to each call of a Hive metastore's client.

Those that ask are answered for Spark's client (Hive 2.3) and those of Hive's others
that ask the same. Those that would change something are refused, in a sentence: tables
come and go with their topics. What nobody here knows is refused as Thrift has it.

Source: ``service ThriftHiveMetastore`` in ``hive_metastore.thrift`` of Hive 2.3, whose
field numbers of arguments, results and exceptions these are.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException

from admin_api.metastore.content import Content
from admin_api.metastore.thrift import (
    LIST,
    STRING,
    STRUCT,
    Call,
    field,
    many,
    record,
    refusal,
    reply,
    text,
    texts,
)
from broker.catalog.errors import CatalogError

READ_ONLY: Final = (
    "the catalog of Lakelog is only read: a table comes with the first records of its "
    "topic and goes with it"
)
_REFUSED: Final[Mapping[str, int]] = {
    "add_partitions": 3,
    "alter_database": 1,
    "alter_table": 2,
    "alter_table_with_cascade": 2,
    "alter_table_with_environment_context": 2,
    "create_database": 3,
    "create_function": 3,
    "create_table": 3,
    "create_table_with_environment_context": 3,
    "drop_database": 3,
    "drop_function": 2,
    "drop_table": 2,
    "drop_table_with_environment_context": 2,
    "truncate_table": 1,
}
"""Calls that change something -> the field of their results that is a MetaException."""

PATTERN_CHARACTERS_MAX: Final = 1_000
"""Of which names are wanted: each is held against each part of it."""
Answer = Callable[[Content, Mapping[int, Any]], Awaitable[bytes]]


async def answer(content: Content, call: Call) -> bytes:
    """The bytes that answer a call."""
    known = _ANSWERS.get(call.name)
    if known is not None:
        try:
            return reply(call, await known(content, call.arguments))
        except CatalogError as error:
            return refusal(call, str(error))
        except KafkaException as error:
            return refusal(call, error.args[0].str())
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            return refusal(call, f"arguments of {call.name}: {error!r}")
    if call.name in _REFUSED:
        return reply(call, _raised(_REFUSED[call.name], READ_ONLY))
    return refusal(call, f"{call.name} is not known here: {READ_ONLY}")


def _gives(kind: int, value: bytes) -> bytes:
    return record(field(kind, 0, value))


def _raised(number: int, why: str) -> bytes:
    return record(field(STRUCT, number, record(field(STRING, 1, text(why)))))


def _matching(pattern: str, names: Sequence[str]) -> list[str]:
    """Those that a pattern of Hive's names: ``*`` is anything, ``|`` stands between
    patterns; so is ``.*``, which its client makes of it. Raises ValueError for one that
    is too long."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    patterns = [_like(one) for one in (pattern or "*").lower().split("|")]
    wanted = re.compile("|".join(f"(?:{one})" for one in patterns))
    return [name for name in names if wanted.fullmatch(name)]


def _like(pattern: str) -> str:
    """As a regular expression that tries no star again: the first place at which what
    stands behind a star is found is as good as any, but for what ends the name."""
    first, *rest = (re.escape(one) for one in pattern.replace(".*", "*").split("*"))
    if not rest:
        return first
    return first + "".join(f"(?>.*?{one})" for one in rest[:-1]) + ".*" + rest[-1]


def _said(argument: Any) -> str:
    decoded: str = argument.decode("utf-8", "replace")
    return decoded


async def _chosen(names: Sequence[str], asked: Mapping[int, Any]) -> bytes:
    """Those that the pattern names, which is the second argument: of ten thousand, so
    on a thread."""
    pattern = _said(asked.get(2, b"*"))
    return _gives(LIST, texts(await asyncio.to_thread(_matching, pattern, names)))


async def _databases(content: Content, asked: Mapping[int, Any]) -> bytes:
    names = _matching(_said(asked.get(1, b"*")), content.databases())
    return _gives(LIST, texts(names))


async def _database(content: Content, asked: Mapping[int, Any]) -> bytes:
    found = content.database(_said(asked[1]))
    if found is None:
        return _raised(1, f"there is no database {_said(asked[1])}")
    return _gives(STRUCT, found)


async def _tables(content: Content, asked: Mapping[int, Any]) -> bytes:
    names = await content.tables(_said(asked[1]))
    return await _chosen(names, asked)


async def _typed_tables(content: Content, asked: Mapping[int, Any]) -> bytes:
    kind = _said(asked.get(3, b""))
    names = await content.typed(_said(asked[1]), kind)
    return await _chosen(names, asked)


async def _table(content: Content, asked: Mapping[int, Any]) -> bytes:
    found = await content.table(_said(asked[1]), _said(asked[2]))
    if found is None:
        return _raised(2, f"there is no table {_said(asked[1])}.{_said(asked[2])}")
    return _gives(STRUCT, found)


async def _table_req(content: Content, asked: Mapping[int, Any]) -> bytes:
    request = asked[1]
    found = await content.table(_said(request[1]), _said(request[2]))
    if found is None:
        return _raised(2, f"there is no table {_said(request[2])}")
    return _gives(STRUCT, record(field(STRUCT, 1, found)))


async def _all_of(content: Content, database: Any, names: Any) -> bytes:
    return many(STRUCT, await content.named(_said(database), map(_said, names)))


async def _tables_by_name(content: Content, asked: Mapping[int, Any]) -> bytes:
    return _gives(LIST, await _all_of(content, asked[1], asked[2]))


async def _tables_by_name_req(content: Content, asked: Mapping[int, Any]) -> bytes:
    found = await _all_of(content, asked[1][1], asked[1].get(2, ()))
    return _gives(STRUCT, record(field(LIST, 1, found)))


async def _nothing(content: Content, asked: Mapping[int, Any]) -> bytes:
    return _gives(LIST, texts(()))


async def _no_functions(content: Content, asked: Mapping[int, Any]) -> bytes:
    return _gives(STRUCT, record(field(LIST, 1, many(STRUCT, ()))))


async def _no_function(content: Content, asked: Mapping[int, Any]) -> bytes:
    return _raised(2, "there are no functions")


async def _default(content: Content, asked: Mapping[int, Any]) -> bytes:
    """Of a setting: what the client says that it is if nobody else does."""
    return _gives(STRING, text(_said(asked.get(2, b""))))


_ANSWERS: Final[Mapping[str, Answer]] = {
    "get_all_databases": _databases,
    "get_all_functions": _no_functions,
    "get_all_tables": _tables,
    "get_config_value": _default,
    "get_database": _database,
    "get_databases": _databases,
    "get_function": _no_function,
    "get_functions": _nothing,
    "get_table": _table,
    "get_table_objects_by_name": _tables_by_name,
    "get_table_objects_by_name_req": _tables_by_name_req,
    "get_table_req": _table_req,
    "get_tables": _tables,
    "get_tables_by_type": _typed_tables,
    "set_ugi": _nothing,
}
