"""An owner writes a DataFrame over a table, with overwriteSchema and no, or another,
partitionBy: the entry, as Spark commits it, without the rows."""

import json
from pathlib import Path

from lakehouse.log.delta_log import entry_path, load


def partition_anew(path: str, columns: list[str]) -> None:
    """The table holds nothing any more, and is partitioned by ``columns``."""
    table = load(path)
    first = Path(entry_path(path, 0)).read_text().splitlines()
    (metadata,) = (
        a["metaData"] for line in first if "metaData" in (a := json.loads(line))
    )
    actions = [
        {"commitInfo": {"operation": "WRITE"}},
        {"metaData": metadata | {"partitionColumns": columns}},
        *({"remove": {"path": file, "dataChange": True}} for file in table.files),
    ]
    text = "\n".join(map(json.dumps, actions))
    Path(entry_path(path, table.version + 1)).write_text(text)
