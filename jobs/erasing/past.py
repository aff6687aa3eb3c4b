"""What of an erasure may be left where it cannot be taken out: told, not hidden.

The log of a table has values only where its owner chose something: statistics of more
columns, a predicate, a constraint, a comment. What lies in the log's directory is asked
for them, whatever it is (`log_files`, `chosen`). Deleted topics of the same name have
tables of their own.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from jobs.erasing.chosen import bounded_columns, chosen
from jobs.erasing.literals import Literal, literals
from jobs.erasing.log_files import TEXT, UNREADABLE, Said, said_in
from lakehouse import further
from lakehouse.location import set_aside_of
from lakehouse.log.delta_log import LOG_DIRECTORY

NAMED_MAX: Final = 5
_TELLING_BYTES: Final = 4
"""A key of so many is known by its hexadecimal digits wherever these stand."""
_OF_TABLE: Final = "metaData"
"""Stands for all that is said of the table and its files."""
_BOUNDS: Final = "statistics of chosen columns"
_PLACES: Final = {
    _BOUNDS: "the table's log has least and greatest values of columns that its owner "
    "chose ({columns}), perhaps of erased rows: they go with the log's entries after "
    "delta.logRetentionDuration, what is no part of it if you delete it: {}",
    "commitInfo": "{what} stands in what an owner's commit says of itself: {}",
    _OF_TABLE: "{what} stands in what the log says of the table or its files "
    "(constraints, properties, comments, statistics): {}",
    TEXT: "{what} stands in what is no whole line of the table's log; delete what is "
    "no part of it: {}",
    UNREADABLE: "files in the directory of the table's log can neither be read nor "
    "searched; delete what is no part of it: {}",
}
"""Where something stands -> what is told: of which files."""


def in_log(root: str, key: bytes | None, where: str | None = None) -> list[str]:
    """One sentence for what the directory of the table's log may still say of rows that
    were erased, by their key or where an expression of Spark's SQL was true; and one
    for the files in it of which nobody can know."""
    wanted = [Literal(key)] if key else literals(where or "")
    pattern = _pattern(tuple(wanted), is_exact=where is None) if wanted else None
    what = "the key" if where is None else "a value that the expression names"
    columns, files = _searched(os.path.join(root, LOG_DIRECTORY), pattern)
    return [
        sentence.format(_named(files[place]), what=what, columns=", ".join(columns))
        for place, sentence in _PLACES.items()
        if files[place]
    ]


def _searched(
    log: str, pattern: re.Pattern[str] | None
) -> tuple[list[str], dict[str, list[str]]]:
    """Columns of which there are values, and place -> the files where such a thing is,
    or may be."""
    columns, files = set[str](), {place: dict[str, None]() for place in _PLACES}
    for said in said_in(log):
        if bounded := bounded_columns(said.kind, said.body):
            columns |= bounded
            files[_BOUNDS][said.file] = None
        if said.kind == UNREADABLE or (pattern and _mentions(said, pattern)):
            place = said.kind if said.kind in _PLACES else _OF_TABLE
            files[place][said.file] = None
    for name in list(files[UNREADABLE]):
        if not os.path.lexists(os.path.join(log, name)):  # it was being written
            del files[UNREADABLE][name]
    return sorted(columns), {place: list(found) for place, found in files.items()}


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


def _mentions(said: Said, pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(text) for text in chosen(said.kind, said.body))


def _named(files: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(files) - NAMED_MAX
    return ", ".join(files[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


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
