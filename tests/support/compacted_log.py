"""A log compaction file, as Delta's protocol has a writer make one of some entries.

Each action stands in it as the last entry has it that has it ("Action Reconciliation").
"""

import json
from pathlib import Path
from typing import Any

from lakehouse.log.delta_log import entry_path, read_entry


def compact_log(path: str, first: int, last: int) -> list[Path]:
    """Write that of the entries ``first`` to ``last`` of a table, and Hadoop's checksum
    of it; where they are."""
    said = dict[tuple[str, str], dict[str, Any]]()
    for version in range(first, last + 1):
        for action in map(json.loads, read_entry(path, version).splitlines()):
            [(kind, body)] = action.items()
            if kind != "commitInfo":
                said[_key(kind, body)] = action
    name = f"{first:020d}.{last:020d}.compacted.json"
    file = Path(entry_path(path, last)).with_name(name)
    file.write_text("".join(json.dumps(action) + "\n" for action in said.values()))
    checksum = file.with_name(f".{name}.crc")
    checksum.write_bytes(b"crc\0\0\0\2\0aaaa")
    return [file, checksum]


def _key(kind: str, body: dict[str, Any]) -> tuple[str, str]:
    if kind in ("add", "remove"):
        return "file", body["path"] + json.dumps(body.get("deletionVector"))
    return kind, str(body.get("appId", ""))
