"""What of an erasure may be left where it cannot be taken out: told, not hidden.

The log of a table has values only where its owner let statistics of more columns be
kept, or wrote a predicate; deleted topics of the same name have tables of their own.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from jobs.erasing.literals import Literal, literals
from lakehouse import further
from lakehouse.location import set_aside_of
from lakehouse.log.checkpoint import SIDECARS
from lakehouse.log.delta_log import LOG_DIRECTORY
from lakehouse.log.provenance import is_ours
from lakehouse.regular import open_file

_HARMLESS: Final = frozenset({"offset", "timestamp", "partition", "timestampType"})
NAMED_MAX: Final = 5
_TECHNICAL: Final = frozenset(
    {
        "clientVersion", "engineInfo", "isolationLevel", "operation",
        "operationMetrics", "txnId",
    }
)  # fmt: skip
"""What a commit says of itself that is nobody's choice."""
_NAMES: Final = frozenset(
    {
        "inCommitTimestamp", "isBlindAppend", "job", "notebook", "readVersion", "tags",
        "timestamp", "userId", "userMetadata", "userName", "version", "clusterId",
    }
)  # fmt: skip
"""Names of what else a commit says of itself; their values may be somebody's choice,
unless they are numbers."""
_TELLING_BYTES: Final = 4
"""A key of so many is known by its hexadecimal digits wherever these stand."""
_ROWLESS: Final = frozenset(
    {"CREATE TABLE", "OPTIMIZE", "RESTORE", "VACUUM START", "VACUUM END"}
)
"""Operations of which no parameter quotes a row: columns, names, sizes, versions."""


def in_log(root: str, key: bytes | None, where: str | None = None) -> list[str]:
    """One sentence for what the table's log may still say of rows that were erased: by
    their key, or where an expression of Spark's SQL was true."""
    wanted = [Literal(key)] if key else literals(where or "")
    pattern = _pattern(tuple(wanted), is_exact=where is None) if wanted else None
    columns, entries = set[str](), list[str]()
    for name, actions in _actions(os.path.join(root, LOG_DIRECTORY)):
        for action in actions:
            columns |= _with_statistics(action) - _HARMLESS
            if pattern and _mentions(action.get("commitInfo"), pattern):
                entries.append(name)
    found = []
    if columns:
        found.append(
            "the table's log has least and greatest values of columns that its owner "
            f"chose ({', '.join(sorted(columns))}), perhaps of erased rows: they go "
            "with the log's entries after delta.logRetentionDuration"
        )
    if entries:
        named = ", ".join(entries[:NAMED_MAX])
        what = "the key" if where is None else "a value that the expression names"
        found.append(f"{what} stands in what an owner's commit says of itself: {named}")
    return found


def of_deleted_topics(data_dir: Path, topic: str) -> list[str]:
    """One sentence for each table of a deleted topic of this name that is kept, and for
    each further warehouse where one may be that nobody can look at."""
    warehouse = str(data_dir / "tables")
    places = [warehouse, *further.present(warehouse).values()]
    found = [
        f"{os.path.relpath(path, data_dir)} is of a deleted topic of this name, and "
        "was not searched: delete it, or bring the topic back with lakelog undelete "
        "and erase there"
        for place in places
        for path in set_aside_of(place, topic)
    ]
    away = [further.why_not(warehouse, name) for name in further.names(warehouse)]
    return found + [
        f"deleted topics of this name were not looked for: {why}"
        for why in away
        if why is not None
    ]


def _actions(log: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(Name of an entry or checkpoint, what it says of files and of itself)."""
    names = sorted(os.listdir(log))
    with suppress(FileNotFoundError):  # of v2 checkpoints
        inside = sorted(os.listdir(os.path.join(log, SIDECARS)))
        names += [os.path.join(SIDECARS, name) for name in inside]
    for name in names:
        path = os.path.join(log, name)
        try:
            if ".json" in name:  # also what was begun, or put aside
                with open_file(path) as file:
                    yield name, list(_of_lines(file))
            elif ".parquet" in name:
                yield name, _of_checkpoint(path)
        except (OSError, ValueError):
            continue  # torn, or cleaned away meanwhile


def _of_lines(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The actions of an entry, but for lines that are none. Where what a commit says of
    itself is torn, the text that is left stands for it."""
    for line in lines:
        try:
            action = json.loads(line)
        except ValueError:
            text = line.decode(errors="replace")
            if text.startswith('{"commitInfo"') and not is_ours(text):
                yield {"commitInfo": {"torn": text}}
            continue
        if isinstance(action, dict):
            yield action


def _of_checkpoint(path: str) -> list[dict[str, Any]]:
    with open_file(path) as file:
        table = pq.read_table(file, columns=["add"])
    rows: list[dict[str, Any]] = [
        {"add": add} for add in table.column("add").to_pylist() if add
    ]
    return rows


def _with_statistics(action: Any) -> set[str]:
    """The columns of which an action says least and greatest values."""
    found = set[str]()
    if not isinstance(action, dict):
        return found
    for kind in ("add", "remove", "cdc"):
        said = action.get(kind)
        if not isinstance(said, dict):
            continue
        parsed = said.get("stats_parsed")
        text = said.get("stats")
        if isinstance(text, str) and text:
            with suppress(ValueError):  # of an owner's; it is nobody's to read then
                parsed = json.loads(text)
        if isinstance(parsed, dict):
            for bound in ("minValues", "maxValues"):
                values = parsed.get(bound)
                if isinstance(values, dict):
                    found |= {name for name, one in values.items() if one is not None}
    return found


def _mentions(info: Any, pattern: re.Pattern[str]) -> bool:
    """Whether a commit of an owner's has a value in what he chose to say. A text in a
    text, as where JSON stands in what an owner wrote beside a commit, is searched as it
    stands there."""
    if not isinstance(info, dict) or is_ours(_compact(info)):
        return False
    said = {name: value for name, value in info.items() if name not in _TECHNICAL}
    parameters = said.pop("operationParameters", None)
    chosen = [value for value in said.values() if not isinstance(value, int | float)]
    if info.get("operation") not in _ROWLESS and isinstance(parameters, dict):
        chosen += parameters.values()
    chosen += [name for name in said if name not in _NAMES]
    return any(pattern.search(text) for text in _texts(chosen))


@lru_cache(1)
def _pattern(wanted: Sequence[Literal], *, is_exact: bool) -> re.Pattern[str]:
    """Any of the values: as a word, or in hexadecimal digits, as Spark and the library
    write bytes. ``is_exact``: small letters are not capitals."""
    forms = [form for one in wanted for form in _forms(one, is_exact=is_exact)]
    return re.compile("|".join(forms), re.IGNORECASE)


def _forms(one: Literal, *, is_exact: bool) -> Iterator[str]:
    """A short value is not every number in which its digits stand, nor a part of every
    word."""
    value = one.value
    is_telling = len(value) >= _TELLING_BYTES
    is_open = is_telling and one.is_open_before, is_telling and one.is_open_behind
    digit, behind = "(?<![0-9a-f])", "" if is_open[1] else "(?![0-9a-f])"
    before = digit if is_telling else r"(?:'|0x|unhex\()"
    yield f"{'' if is_open[0] else before}{value.hex()}{behind}"
    yield f"0x{value.hex()}{behind}"
    with suppress(UnicodeDecodeError):
        text = value.decode()
        written = {text, json.dumps(text, ensure_ascii=False)[1:-1]}
        written |= {text.replace("'", quote) for quote in ("''", r"\'")}
        written |= {json.dumps(form)[1:-1] for form in written}
        word = r"(?:(?<!\w)|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4}))"
        first, last = "" if is_open[0] else word, "" if is_open[1] else r"(?!\w)"
        case = "(?-i:" if is_exact else "(?:"
        yield from (f"{case}{first}{re.escape(form)}{last})" for form in written)


def _texts(said: Any) -> Iterator[str]:
    """All texts in a value of JSON, names of its fields and numbers among them."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, dict):
        for name, value in said.items():
            yield name
            yield from _texts(value)
    elif isinstance(said, int | float) and not isinstance(said, bool):
        yield str(said)
    elif isinstance(said, list):
        for value in said:
            yield from _texts(value)


def _compact(info: dict[str, Any]) -> str:
    return json.dumps(info, separators=(",", ":"))
