"""Server-sent events, as the HTML standard has them, taken apart."""

import json
from typing import Any


def events(text: bytes) -> list[tuple[str | None, str, Any]]:
    """(id, name, data) of each event."""
    found = []
    for block in text.decode().split("\n\n"):
        lines = dict(
            line.split(": ", 1)
            for line in block.splitlines()
            if not line.startswith(":")
        )
        if lines:
            found.append((lines.get("id"), lines["event"], json.loads(lines["data"])))
    return found
