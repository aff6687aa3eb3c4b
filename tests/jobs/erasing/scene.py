"""A topic with a person's records among others', in a table, for tests of erasure."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from broker.failpoints import watch
from jobs.erasing.search import by_key
from jobs.erasing.table import Look, erase, look
from lakehouse.log.actions import Vector
from lakehouse.log.delta_log import entry_path, load
from lakehouse.plain import numbers
from tests.jobs.world import World
from tests.support.batches import Record
from tests.support.bitmaps import delete_rows
from tests.support.tables import Writer
from tests.support.traces import traces

PERSON, SECRET, REQUEST = b"person-4711", b"lives in Amsterdam", "ab" * 32


class Scene:
    """``world`` with one topic of a partition; a file for each `put`."""

    def __init__(self, world: World, configs: dict[str, str] | None = None) -> None:
        self.world, self.topic = world, world.topic("people", 1, configs)
        self.steps = world.compactor()
        self.root = str(world.path(self.topic))
        self.id = self.topic.id.hex()
        self._attempts = (f"1-2-e{n:x}" for n in count())

    def put(self, keys: Sequence[bytes]) -> None:
        """A record of each of these keys; the person's are secret."""
        values = [SECRET if key == PERSON else b"v-" + key for key in keys]
        pairs = zip(keys, values, strict=True)
        records = [Record(key, value, ((b"h", b"1"),)) for key, value in pairs]
        self.world.produce(self.topic, records)
        self.world.flush(self.steps)

    def look(self, key: bytes = PERSON) -> Look:
        return look(self.root, self.id, by_key(key))

    def erase(self, found: Look | None = None) -> None:
        spill = str(self.world.data_dir / "spill-erase")
        found = found or self.look()
        erase(found, self.id, REQUEST, self.attempts, spill)

    @property
    def attempts(self) -> Iterator[str]:
        return self._attempts

    @property
    def shown(self) -> list[tuple[int, bytes]]:
        """(Offset, key) of the rows in the files of the table."""
        found = []
        for file in load(self.root).files.values():
            path = Path(self.root) / file.relative_path
            table = pq.read_table(path, columns=["offset", "key"], partitioning=None)
            found += [(row["offset"], row["key"]) for row in table.to_pylist()]
        return sorted(found)

    @property
    def table(self) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self.root)

    def replace(
        self, path: str, by: str, key: bytes | None = None, offset: int | None = None
    ) -> None:
        """As a statement of an owner's that writes a file of the table to another
        place; ``key``: of all its rows from then on; ``offset``: the one row that is
        written, and the file stays."""
        root = Path(self.root)
        rows = pq.read_table(root / path, partitioning=None)
        if "partition" in rows.column_names:  # a column of the path, as Spark writes it
            rows = rows.drop_columns(["partition"])
        if offset is not None:
            rows = rows.filter(pc.equal(rows["offset"], offset))
        if key is not None:
            keys = pa.array([key] * len(rows), pa.binary())
            rows = rows.set_column(rows.schema.get_field_index("key"), "key", keys)
        (root / by).parent.mkdir(exist_ok=True)
        pq.write_table(rows, root / by)
        size, offsets = (root / by).stat().st_size, numbers(rows["offset"])
        stats = {"numRecords": len(rows), "minValues": {"offset": int(offsets.min())},
                 "maxValues": {"offset": int(offsets.max())}}  # fmt: skip
        actions = [
            {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}},
            {"add": {"path": by, "partitionValues": {"partition": "0"}, "size": size,
                     "modificationTime": 1, "dataChange": True,
                     "stats": json.dumps(stats)}},
        ]  # fmt: skip
        said = actions if offset is None else actions[1:]
        entry = Path(entry_path(self.root, load(self.root).version + 1))
        entry.write_text("\n".join(map(json.dumps, said)))

    def files(self) -> set[str]:
        root = Path(self.root)
        return {str(path.relative_to(root)) for path in root.rglob("part*/*.parquet")}

    def left(self) -> list[str]:
        """The files of the table in which the person still is."""
        return list(traces(Path(self.root), [PERSON, SECRET]))


@contextmanager
def watched(watcher: Callable[[str], None]) -> Iterator[None]:
    """Each point that an erasure passes is said to a watcher."""
    watch(watcher)
    try:
        yield
    finally:
        watch(None)


class Killed(BaseException):
    """As by ``kill -9``: nobody handles it."""


def erase_killed(scene: Scene, point: str, number: int = 1) -> None:
    """An erasure that does not come further than this, the first time or a later."""
    passed = Counter[str]()

    def kill(name: str) -> None:
        passed[name] += 1
        if (name, passed[name]) == (point, number):
            raise Killed

    with watched(kill), pytest.raises(Killed):
        scene.erase()


def mark(scene: Scene, path: str, taken: list[int] | Vector) -> None:
    writer = Writer.__new__(Writer)
    writer.path = scene.root
    delete_rows(writer, {path: taken})
