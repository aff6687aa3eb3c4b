"""Tables on another disk than the log: found by all, missed by none that is away."""

import json
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jobs.check import check_data_directory
from jobs.extent import Extents
from lakehouse.location import table_path
from tests.support.confluent import create, produce_all
from tests.support.patience import IDLE_S, STUCK_S, wait_until
from tests.support.process import WholePart, gone, lakelog, told
from tests.support.readers import by_deltalake, consumed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.shared_out("tables", 4, whole=True),
]

MEMORY = Path("/dev/shm")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = MEMORY if MEMORY.is_dir() else tmp_path
    with tempfile.TemporaryDirectory(dir=place) as found:
        yield Path(found)


def go_on(whole: WholePart, away: Path, first: int) -> None:
    """Fifty records more, which consumers and tables have, with all before them."""
    records = [(b"k", b"%d" % n, [], n % 2) for n in range(first, first + 50)]
    produce_all(whole.bootstrap, "t", records)
    with closing(Extents(whole.data_dir)) as extents:
        extents.compact(["t"], STUCK_S)
    rows = consumed(whole.bootstrap, "t", 2)
    assert sorted(int(row[5]) for row in rows) == list(range(first + 50))
    assert by_deltalake(table_path(away, "t")) == rows


def test_tables_lie_on_another_disk(tmp_path: Path, disk: Path) -> None:
    away = disk / "tables"
    settings = ["wal.keep_ms=0", "wal.idle_seal_ms=100", "lake.flush_ms=500",
                "lake.table_delete_delay_ms=500"]  # fmt: skip
    whole = WholePart(tmp_path / "data", f"lake.warehouse={away}", *settings)
    whole.start()
    try:
        whole.hear("compactor ready")
        assert whole.facts["tables"] == str(away)
        create(whole.bootstrap, "t", 2)
        go_on(whole, away, 0)
        about = f"{whole.facts['admin']}/v1/tables/t"
        with urllib.request.urlopen(about, timeout=IDLE_S) as answer:
            assert json.load(answer)["location"] == table_path(away, "t")
        parts = [one for found in whole.descendants().values() for one in found]
        whole.kill()
        assert gone(parts, STUCK_S)

        away.rename(disk / "unmounted")
        refused = told("broker", "--data-dir", str(whole.data_dir))
        assert refused.code == 1
        assert "is its disk mounted?" in refused.errors
        (disk / "unmounted").rename(away)

        whole.settings = settings  # the data directory knows
        whole.start()
        whole.hear("compactor ready")
        go_on(whole, away, 50)
        assert check_data_directory(whole.data_dir).problems == []
        lakelog("topic", "delete", "t", "--bootstrap", whole.bootstrap)
        wait_until(lambda: any(away.glob(".deleted-*")), STUCK_S)
    finally:
        whole.end()
