"""An owner's shallow clone that he put back in the table's place: CREATE OR REPLACE
TABLE t SHALLOW CLONE c, behind a DELETE of all rows of t. As Spark writes it."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from lakehouse.log.delta_log import entry_path, entry_versions, load, read_entry


def clone_back(
    root: str, place: str | None = None, *, scheme: str = "file:", when_ms: int = 1
) -> list[str]:
    """All files of the table leave it, and come back by where they lie; the names that
    they have from then on. ``place``: how the owner calls the table's directory."""
    names, before = load(root).files.keys(), _adds(root)
    removed = [
        {"remove": {"path": name, "deletionTimestamp": when_ms, "dataChange": True}}
        for name in names
    ]
    _commit(root, removed)
    way = scheme + quote(place or root)
    back = {f"{way}/{name}": before[name] for name in names}
    _commit(root, [{"add": body | {"path": name}} for name, body in back.items()])
    return list(back)


def _adds(root: str) -> dict[str, dict[str, object]]:
    text = b"\n".join(read_entry(root, at) for at in entry_versions(root))
    actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    return {one["add"]["path"]: one["add"] for one in actions if "add" in one}


def _commit(root: str, actions: Iterable[Mapping[str, object]]) -> None:
    entry = Path(entry_path(root, load(root).version + 1))
    entry.write_text("".join(json.dumps(one) + os.linesep for one in actions))
