"""The files of what foreign clients and programs found, which the README shows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.clients_table import PROGRAMS, RESULTS
from tests.support.foreign import Client

FAILED = "FAILED: "


def failed(error: Exception) -> str:
    """The cell of what ended so, on one line."""
    return FAILED + " ".join(str(error).split())[:300]


def write_down(client: Client, cells: dict[str, str]) -> None:
    """Put the client's row in the file of results, in the place of an older one."""
    _put(RESULTS, {"library": client.library, "version": client.version}, cells)


@contextmanager
def program_row(program: str, journey: str) -> Iterator[None]:
    """Write down how what is done inside ended."""
    found = "yes"
    try:
        yield
    except Exception as error:
        found = failed(error)
        raise
    finally:
        _put(PROGRAMS, {"program": program, "journey": journey}, {"found": found})


def _put(path: Path, name: dict[str, str], cells: dict[str, str]) -> None:
    rows = json.loads(path.read_text()) if path.exists() else []
    places = [n for n, row in enumerate(rows) if not name.items() - row.items()]
    for place in places[:1]:
        rows[place] = name | cells
    if not places:
        rows.append(name | cells)
    path.write_text(json.dumps(rows, indent=1) + "\n")
