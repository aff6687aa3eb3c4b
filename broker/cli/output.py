"""Answers for people (aligned columns) and for programs (``--json``)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer

Row = Mapping[str, Any]


def rows(found: Sequence[Row], as_json: bool) -> None:
    """Print a list: a JSON array, or columns under their names."""
    if as_json:
        typer.echo(json.dumps(list(found), default=str))
        return
    if not found:
        typer.echo("(none)")
        return
    names = list(found[0])
    columns(names, [[_cell(row[name]) for name in names] for row in found])


def columns(names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print texts in columns that are as wide as they need to be."""
    lines = [names, *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    for line in lines:
        typer.echo(
            "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
        )


def one(found: Row, as_json: bool) -> None:
    """Print one thing: a JSON object, or ``name: value`` lines."""
    if as_json:
        typer.echo(json.dumps(dict(found), default=str))
        return
    for name, value in found.items():
        typer.echo(f"{name}: {_cell(value)}")


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{k}={v}" for k, v in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return "-" if value is None else str(value)
