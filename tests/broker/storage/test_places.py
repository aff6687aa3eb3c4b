"""Where a log is kept, as those see it who do not read it."""

from pathlib import Path

import pytest

from broker.storage.files import PosixFiles
from broker.storage.places import damaged_names, has_log, places
from tests.broker.storage.driver import Driver


@pytest.fixture
def wal(tmp_path: Path) -> Path:
    (tmp_path / "wal").mkdir()
    driver = Driver(PosixFiles(), tmp_path / "wal", spare_segments=1)
    driver.finish([driver.append()])
    driver.until(lambda: not driver.wal._pool.wants())
    driver.close()
    return tmp_path / "wal"


def test_a_log_is_there_as_soon_as_it_has_a_file_of_segments(
    tmp_path: Path, wal: Path
) -> None:
    assert has_log(wal)
    assert not has_log(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "reserve").touch()
    (tmp_path / "other" / "segment-x.log").touch()
    assert not has_log(tmp_path / "other")
    (tmp_path / "other" / "checkpoint").touch()
    assert has_log(tmp_path / "other")


def test_each_file_of_segments_is_a_place_and_a_new_one_of_its_name_another(
    wal: Path,
) -> None:
    before = places(str(wal))
    assert before.keys() == {path.name for path in wal.glob("segment-*")}
    assert before
    assert places(str(wal)) == before
    name = min(before)
    (wal / "new").write_bytes((wal / name).read_bytes())
    (wal / "new").rename(wal / name)
    after = places(str(wal))
    assert after.keys() == before.keys()
    assert [one for one in before if before[one] != after[one]] == [name]


def test_what_was_put_aside_is_named_and_is_no_place(wal: Path) -> None:
    before = places(str(wal))
    assert damaged_names(str(wal)) == []
    for name in ("damaged-4.log", "checkpoint.damaged"):
        (wal / name).touch()
    assert damaged_names(str(wal)) == ["checkpoint.damaged", "damaged-4.log"]
    assert places(str(wal)) == before
