"""A topic's table on a disk of its own: for clients and Spark a topic as all others,
and alone in waiting when that disk is away."""

import json
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError

import pytest

from jobs.check import check_data_directory
from jobs.extent import Extents
from lakehouse.location import table_path
from tests.support.confluent import create, produce_all
from tests.support.patience import IDLE_S, STUCK_S, wait_until
from tests.support.process import WholePart, gone, lakelog, told
from tests.support.readers import by_deltalake, consumed
from tests.support.warehouses import mount, unmount

pytestmark = [pytest.mark.spark, pytest.mark.shared_out("tables", 4, whole=True)]

MEMORY = Path("/dev/shm")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = MEMORY if MEMORY.is_dir() else tmp_path
    with tempfile.TemporaryDirectory(dir=place) as found:
        yield Path(found) / "fast"


def go_on(whole: WholePart, topic: str, first: int) -> None:
    """Fifty records more, which consumers and tables have, with all before them."""
    records = [(b"k", b"%d" % n, [], n % 2) for n in range(first, first + 50)]
    produce_all(whole.bootstrap, topic, records)
    with closing(Extents(whole.data_dir)) as extents:
        extents.compact([topic], STUCK_S)
    rows = consumed(whole.bootstrap, topic, 2)
    assert sorted(int(row[5]) for row in rows) == list(range(first + 50))
    assert by_deltalake(table_path(whole.data_dir / "tables", topic)) == rows


def told_of(whole: WholePart) -> str:
    """What `/readyz` says."""
    try:
        with urllib.request.urlopen(
            f"{whole.facts['admin']}/readyz", timeout=IDLE_S
        ) as answer:
            return str(json.load(answer))
    except HTTPError as error:
        return error.read().decode()


def test_a_topics_table_lies_on_another_disk(tmp_path: Path, disk: Path) -> None:
    whole = WholePart(
        tmp_path / "data", f"lake.warehouses=fast={disk}", "wal.keep_ms=0",
        "wal.idle_seal_ms=100", "lake.flush_ms=500", "lake.table_delete_delay_ms=500",
    )  # fmt: skip
    at = ("--data-dir", str(whole.data_dir))
    whole.start()
    try:
        whole.hear("compactor ready")
        create(whole.bootstrap, "t", 2, **{"lake.warehouse": "fast"})
        create(whole.bootstrap, "plain", 2)
        for topic in ("t", "plain"):
            go_on(whole, topic, 0)
        assert (disk / "t" / "_delta_log").is_dir()
        assert not (disk / "plain").exists()
        query = "SELECT count(*) AS found FROM lakelog.t"
        assert "50" in lakelog("sql", query, *at)
        lakelog("table", "t", "--sql", "OPTIMIZE t", *at)
        go_on(whole, "t", 50)
        parts = [one for found in whole.descendants().values() for one in found]
        whole.kill()
        assert gone(parts, STUCK_S)

        unmount(disk)
        whole.start()
        whole.hear("compactor ready")
        wait_until(lambda: "mounted?" in told_of(whole), STUCK_S)
        go_on(whole, "plain", 50)
        produce_all(whole.bootstrap, "t", [(b"k", b"%d" % 100, [], 0)])
        assert list(disk.iterdir()) == []
        mount(disk)
        wait_until(lambda: "mounted?" not in told_of(whole), STUCK_S)
        produce_all(whole.bootstrap, "t", [(b"k", b"%d" % 101, [], 1)])
        go_on(whole, "t", 102)
        assert check_data_directory(whole.data_dir).problems == []
        lakelog("topic", "delete", "t", "--bootstrap", whole.bootstrap)
        wait_until(lambda: any(disk.glob(".deleted-*")), STUCK_S)
        assert not (whole.data_dir / "tables" / "t").is_symlink()
        whole.end()
        wait_until(  # the lease of a compactor that was killed has to end
            lambda: told("undelete", "t", *at).code == 0, STUCK_S, pause_s=1
        )
        assert (disk / "t" / "_delta_log").is_dir()
        assert check_data_directory(whole.data_dir).problems == []
    finally:
        whole.end()
