"""A checkpoint of the V2 kind, with sidecars, as Spark writes it."""

import json
import os
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.log.delta_log import entry_path
from tests.support.tables import Writer

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def as_v2(writer: Writer, kind: str) -> Path:
    """The library's classic checkpoint as Spark writes the V2 kind; entries go."""
    deltalake.DeltaTable(writer.path).create_checkpoint()
    log = Path(writer.path) / "_delta_log"
    (classic,) = log.glob("*.checkpoint.parquet")
    table = pq.read_table(classic)
    version = int(classic.name[:20])
    (log / "_sidecars").mkdir()
    files = table.filter(table.column("add").is_valid()).select(["add", "remove"])
    half = len(files) // 2
    for number, part in enumerate((files.slice(0, half), files.slice(half))):
        pq.write_table(part, log / "_sidecars" / f"part-{number}.parquet")
    rest = table.filter(table.column("add").is_null())
    rows = [row for row in rest.to_pylist() if any(row.values())]
    names = [name for name in ("protocol", "metaData", "txn", "remove") if rows]
    actions = [
        {name: row[name]} for row in rows for name in names if row.get(name) is not None
    ]
    for action in actions:
        configuration = action.get("metaData", {}).get("configuration")
        if isinstance(configuration, list):
            action["metaData"]["configuration"] = dict(configuration)
    sidecars = [{"sidecar": {"path": f"part-{n}.parquet"}} for n in range(2)]
    path = log / f"{version:020d}.checkpoint.{UUID}.{kind}"
    if kind == "json":
        text = "".join(json.dumps(one) + "\n" for one in [*actions, *sidecars])
        path.write_text(text)
    else:
        rest = rest.drop_columns([n for n in rest.column_names if n == "sidecar"])
        named = [one["sidecar"] for one in sidecars]
        column = pa.array(named + [None] * (len(rest) - len(named)))
        pq.write_table(rest.append_column("sidecar", column), path)
    classic.unlink()
    for entry in range(version + 1):
        os.unlink(entry_path(writer.path, entry))
    return path
