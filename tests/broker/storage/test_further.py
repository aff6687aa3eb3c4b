"""Further warehouses at a start: new, there, away, moved, another's."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.storage.directory import DataDirectory
from broker.storage.files import PosixFiles
from broker.storage.further import use_further
from broker.storage.warehouse import MARK, DirectoryRefused
from lakehouse import further
from tests.support.warehouses import mount, unmount


def start(data: Path, warehouse: Path | None = None, **places: Path) -> None:
    DataDirectory.claim(PosixFiles(), data, "a test", warehouse, places).close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    place = tmp_path / "disk"
    place.mkdir()
    return place


def reached(data: Path, name: str = "fast") -> Path | None:
    """Where the warehouse of that name is; None: it is not there."""
    link = further.present(str(data / "tables")).get(name)
    return None if link is None else Path(os.path.realpath(link))


def test_there_are_none_unless_it_is_said(data: Path) -> None:
    start(data)
    assert further.names(str(data / "tables")) == []
    assert os.listdir(data / "tables") == []


def test_one_is_made_and_known_by_the_data_directory_alone(
    data: Path, disk: Path, tmp_path: Path
) -> None:
    for places in ({"fast": disk}, {"fast": disk, "slow": tmp_path / "new"}, {}):
        start(data, **places)
        assert reached(data) == disk
    assert reached(data, "slow") == tmp_path / "new"
    marks = {(one / MARK).read_text() for one in (disk, tmp_path / "new")}
    assert len(marks) == 2


def test_they_lie_beside_a_warehouse_of_its_own(data: Path, disk: Path) -> None:
    start(data, disk / "all", fast=disk / "one")
    assert reached(data) == disk / "one"
    assert (disk / "all" / further.DIRECTORY / "fast").is_symlink()


@pytest.mark.parametrize("there", ["nothing", "an empty place"])
def test_a_disk_that_is_not_mounted_stops_no_start_and_is_not_written_to(
    data: Path, disk: Path, there: str
) -> None:
    start(data, fast=disk)
    unmount(disk, there)
    for places in ({"fast": disk}, {}):
        start(data, **places)
        assert reached(data) is None
    mount(disk)
    start(data)
    assert reached(data) == disk


def test_another_disk_in_its_place_does(data: Path, disk: Path) -> None:
    start(data, fast=disk)
    unmount(disk, "another")
    with pytest.raises(DirectoryRefused, match="of another data directory"):
        start(data, fast=disk)


def test_a_disk_that_was_lost_begins_anew_with_an_empty_mark(
    data: Path, disk: Path
) -> None:
    start(data, fast=disk)
    unmount(disk)
    (disk / MARK).touch()
    start(data, fast=disk)
    assert reached(data) == disk


def test_one_is_not_shared(data: Path, disk: Path, tmp_path: Path) -> None:
    start(data, fast=disk)
    with pytest.raises(DirectoryRefused, match="of another data directory"):
        start(tmp_path / "other", fast=disk)
    with pytest.raises(DirectoryRefused, match="of another data directory"):
        start(tmp_path / "other", disk)
    start(data, slow=tmp_path / "slow")
    with pytest.raises(DirectoryRefused, match="share a place"):
        start(data, third=tmp_path / "slow")


def test_a_copy_of_a_data_directory_is_not_used_beside_it(
    data: Path, disk: Path, tmp_path: Path
) -> None:
    start(data, fast=disk)
    shutil.copytree(data, tmp_path / "copy", symlinks=True)
    first = DataDirectory.claim(PosixFiles(), data, "a test")
    with pytest.raises(DirectoryRefused, match="is in use by another broker"):
        start(tmp_path / "copy")
    first.close()
    start(tmp_path / "copy")


def test_one_is_moved_with_its_mark(data: Path, disk: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    start(data, fast=disk)
    with pytest.raises(DirectoryRefused, match="move all that is in it"):
        start(data, fast=new)
    shutil.copytree(disk, new)
    with pytest.raises(DirectoryRefused, match="both have"):
        start(data, fast=new)
    shutil.rmtree(disk)
    start(data, fast=new)
    assert reached(data) == new


def inside(data: Path) -> Path:
    return data / "more"


def around(data: Path) -> Path:
    return data.parent


def in_tables(data: Path) -> Path:
    return data / "tables"


def in_another(data: Path) -> Path:
    start(data.parent / "other")
    return data.parent / "other" / "more"


def in_a_warehouse(data: Path) -> Path:
    start(data.parent / "third", data.parent / "away")
    return data.parent / "away" / "more"


def without_a_parent(data: Path) -> Path:
    return data.parent / "not" / "mounted"


@pytest.mark.parametrize(
    "where",
    [inside, around, in_tables, in_another, in_a_warehouse, without_a_parent],
)
def test_a_place_that_cannot_be_is_refused(
    data: Path, where: Callable[[Path], Path]
) -> None:
    start(data)
    (data.parent / "other").mkdir()
    (data.parent / "other" / "catalog.db").touch()
    place = where(data)
    with pytest.raises(DirectoryRefused):
        start(data, fast=place)
    assert further.present(str(data / "tables")) == {}


def test_two_of_them_do_not_share_a_place(data: Path, disk: Path) -> None:
    for other in (disk, disk / "more", disk.parent / "disk" / ".." / "disk"):
        with pytest.raises(DirectoryRefused, match="share a place"):
            start(data, fast=disk, slow=other)


@pytest.mark.parametrize("is_away", [False, True])
def test_one_that_is_known_without_the_setting_shares_its_place_with_none(
    data: Path, disk: Path, *, is_away: bool
) -> None:
    """A table of the outer one may be called as the inner one is: a VACUUM of it
    deletes all tables in there."""
    start(data, fast=disk / "fast")
    if is_away:
        unmount(disk / "fast")
    for other in (disk, disk / "fast" / "more"):
        with pytest.raises(
            DirectoryRefused, match=r"share a place|lies in the warehouse"
        ):
            start(data, outer=other)
    assert further.names(str(data / "tables")) == ["fast"]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_start_that_was_killed_half_way_is_made_up_for(
    data: Path, disk: Path, steps: int
) -> None:
    start(data)
    (data / "tables" / further.DIRECTORY).mkdir()
    if steps > 1:
        own = Path(further.id_of(str(data / "tables"), "fast"))
        own.write_text("an id\n")
    if steps > 2:
        (disk / MARK).write_text("an id\n")
    files = PosixFiles()
    for lock in use_further(files, data, {"fast": disk}, lambda: b"new"):
        files.close(lock)
    assert reached(data) == disk
    assert (disk / MARK).read_text() == (
        "an id\n" if steps > 1 else b"new".hex() + "\n"
    )
