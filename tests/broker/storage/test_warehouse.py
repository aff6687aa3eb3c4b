"""Tables may lie on another disk, and are never taken for none or for another's."""

import errno
import os
from pathlib import Path

import pytest

from broker.storage.directory import DataDirectory
from broker.storage.files import PosixFiles
from broker.storage.warehouse import (
    _BEGUN,
    MARK,
    DirectoryRefused,
    check_warehouse,
    use_warehouse,
)
from lakehouse.location import check_contained, table_path, warehouse_of
from tests.support.syscalls import SystemCalls, in_order


def claim(path: Path, warehouse: Path | None = None) -> DataDirectory:
    return DataDirectory.claim(PosixFiles(), path, "process 7", warehouse)


def start(path: Path, warehouse: Path | None = None) -> None:
    claim(path, warehouse).close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def away(tmp_path: Path) -> Path:
    return tmp_path / "far" / "away"


def move(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for one in source.iterdir():
        one.rename(target / one.name)


def test_tables_lie_where_they_always_did_unless_it_is_said(data: Path) -> None:
    start(data)
    assert not (data / "tables").is_symlink()
    assert warehouse_of(data) == data / "tables"


@pytest.mark.parametrize("name", ["a%20b", "x%41", "%fF"])
def test_where_the_library_would_look_elsewhere_no_tables_begin(
    data: Path, tmp_path: Path, name: str
) -> None:
    odd, link = tmp_path / name, tmp_path / "link"
    odd.mkdir()
    link.symlink_to(odd)
    refused = (
        (odd / "data", None), (link / "data", None), (data, odd / "away"),
        (data, link / "away"),
    )  # fmt: skip
    for _ in range(2):  # also once something was made there
        for args in refused:
            with pytest.raises(DirectoryRefused, match=r"takes %.. for one letter"):
                start(*args)
    (odd / "data" / "tables" / "t" / "_delta_log").mkdir(parents=True)
    start(odd / "data")  # as versions before had it


def test_of_a_link_it_is_where_it_leads_that_counts(
    data: Path, away: Path, tmp_path: Path
) -> None:
    data.mkdir()
    link = tmp_path / "name%41link"
    link.symlink_to(data)
    start(link)
    start(tmp_path / "x%41y", away)  # its tables lie elsewhere


def test_other_percents_and_spaces_may_be_in_a_path(tmp_path: Path) -> None:
    start(tmp_path / "100% of it" / "data %2", tmp_path / "é%x")


def test_whose_a_warehouse_is_lasts_before_anything_says_so(
    data: Path, away: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a power cut it is this directory's, or nobody's."""
    calls = SystemCalls(monkeypatch, tmp_path)
    start(data, away)
    begun, mark = f"data/{_BEGUN}", f"far/away/{MARK}"
    own = f"{mark}.{(data / MARK).read_text().strip()}"
    steps = [f"sync {begun}.new", f"rename {begun}.new {begun}", "sync directory data",
             f"sync {own}.new", f"link {own} {mark}", "sync directory far/away",
             f"rename {begun} data/{MARK}", "sync directory data"]  # fmt: skip
    assert in_order(calls.events, steps)


def test_a_warehouse_is_made_and_known_by_the_data_directory_alone(
    data: Path, away: Path
) -> None:
    for warehouse in (away, away, None):
        directory = claim(data, warehouse)
        assert directory.tables.resolve() == away
        directory.close()
    assert warehouse_of(data) == away
    table = Path(table_path(data / "tables", "t"))
    table.mkdir()
    assert (away / "t").is_dir()
    check_contained(str(table))


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_start_that_was_killed_half_way_is_made_up_for(
    data: Path, away: Path, steps: int
) -> None:
    start(data)
    begun = data / f"{MARK}.begun"
    begun.write_text("an id\n")
    if steps > 1:
        away.mkdir(parents=True)
        (away / MARK).write_text("an id\n")
    if steps > 2:
        begun.rename(data / MARK)
    if steps > 3:
        (data / "tables.new").symlink_to("/nowhere")
        (data / "tables").rmdir()
    start(data, away)
    assert warehouse_of(data) == away
    assert (away / MARK).read_text() == (data / MARK).read_text() == "an id\n"
    assert not begun.exists()


def test_a_file_system_without_links_has_a_mark_too(
    data: Path, away: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_none(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", has_none)
    start(data, away)
    assert (away / MARK).read_text() == (data / MARK).read_text() != ""
    start(data)


def test_a_link_that_is_gone_is_not_a_directory_without_tables(
    data: Path, away: Path
) -> None:
    """As behind a copy by a tool that leaves links out."""
    start(data, away)
    (away / "t").mkdir()
    (data / "tables").unlink()
    for refused in (check_warehouse, start):
        with pytest.raises(DirectoryRefused, match="is no link to it"):
            refused(data)
    with pytest.raises(DirectoryRefused, match="is its disk mounted"):
        start(data, away.parent / "elsewhere")
    start(data, away)
    assert (data / "tables" / "t").is_dir()


def test_tables_that_were_moved_back_are_where_they_were_at_first(
    data: Path, away: Path
) -> None:
    start(data, away)
    (away / "t").mkdir()
    (data / "tables").unlink()
    move(away, data / "tables")
    start(data)
    assert warehouse_of(data) == data / "tables"


def test_a_link_that_an_operator_made_stays_and_may_become_a_setting(
    data: Path, away: Path
) -> None:
    start(data)
    (data / "tables" / "t").mkdir()
    move(data / "tables", away)
    (data / "tables").rmdir()
    (data / "tables").symlink_to(Path("..") / "far" / "away")
    start(data)
    assert not (away / MARK).exists()
    for warehouse in (away, None):
        start(data, warehouse)
        assert (away / MARK).read_text() == (data / MARK).read_text()
    (data / "tables").unlink()
    (data / MARK).unlink()
    (data / "tables").symlink_to("nowhere")
    for warehouse in (None, data / "nowhere", away):
        with pytest.raises(DirectoryRefused):
            start(data, warehouse)
    assert not (data / "nowhere").exists()


def test_tables_that_were_brought_into_another_data_directory_are_its_own(
    data: Path, away: Path, tmp_path: Path
) -> None:
    """As for a rebuild: they are inside of it, whatever their mark says."""
    start(data, away)
    (away / "t").mkdir()
    other = tmp_path / "other"
    move(away, other / "tables")
    start(other)
    assert (other / "tables" / "t").is_dir()


def test_a_data_directory_at_the_same_path_is_another(data: Path, away: Path) -> None:
    start(data, away)
    data.rename(data.with_name("before"))
    with pytest.raises(DirectoryRefused, match="warehouse of another data directory"):
        start(data, away)


def test_tables_are_not_left_behind(data: Path, away: Path, tmp_path: Path) -> None:
    start(data)
    (data / "tables" / "t").mkdir()
    with pytest.raises(DirectoryRefused, match=r"there are tables in .*: move all"):
        start(data, away)
    start(data)
    move(data / "tables", away)
    start(data, away)
    assert (data / "tables" / "t").is_dir()
    farther = tmp_path / "farther"
    with pytest.raises(DirectoryRefused, match=r"farther has no .*: is its disk"):
        start(data, farther)
    assert not farther.exists()
    move(away, farther)
    with pytest.raises(DirectoryRefused, match="is its disk mounted"):
        start(data)
    start(data, farther)
    assert (data / "tables" / "t").is_dir()
    start(data)
    assert warehouse_of(data) == farther


@pytest.mark.parametrize("is_there", [True, False])
def test_tables_that_were_moved_are_not_missing_where_no_disk_is_mounted(
    data: Path, away: Path, is_there: bool
) -> None:
    start(data)
    (data / "catalog.db").touch()
    if is_there:
        away.mkdir(parents=True)
    with pytest.raises(DirectoryRefused, match="is its disk mounted"):
        start(data, away)
    assert away.exists() == is_there
    (away / "t" / "_delta_log").mkdir(parents=True)
    start(data, away)
    assert (data / "tables" / "t").is_dir()


def test_a_warehouse_may_begin_without_tables_if_that_is_said(
    data: Path, away: Path
) -> None:
    start(data)
    (data / "catalog.db").touch()
    away.mkdir(parents=True)
    (away / MARK).touch()
    start(data, away)
    assert (away / MARK).read_text() == (data / MARK).read_text() != ""


def test_a_place_that_tables_were_copied_from_is_not_gone_back_to(
    data: Path, away: Path, tmp_path: Path
) -> None:
    start(data, away)
    farther = tmp_path / "farther"
    farther.mkdir()
    (farther / MARK).write_text((away / MARK).read_text())
    for one, other in ((away, farther), (farther, away)):
        with pytest.raises(DirectoryRefused, match="both have the"):
            start(data, other)
        (one / MARK).unlink()
        start(data, other)
        assert warehouse_of(data) == other
        (one / MARK).write_text((other / MARK).read_text())


@pytest.mark.parametrize("is_there", [True, False])
def test_a_disk_that_is_not_mounted_is_not_an_empty_warehouse(
    data: Path, away: Path, is_there: bool
) -> None:
    start(data, away)
    away.rename(away.with_name("unmounted"))
    if is_there:
        away.mkdir()
    for refused in (check_warehouse, start):
        with pytest.raises(DirectoryRefused, match="is its disk mounted"):
            refused(data)
    assert not is_there or not list(away.iterdir())


def test_a_warehouse_serves_one_data_directory(
    data: Path, away: Path, tmp_path: Path
) -> None:
    start(data, away)
    with pytest.raises(DirectoryRefused, match="warehouse of another data directory"):
        start(tmp_path / "other", away)
    start(tmp_path / "other")
    (tmp_path / "other" / "tables").rmdir()
    (tmp_path / "other" / "tables").symlink_to(away)
    with pytest.raises(DirectoryRefused, match="warehouse of another data directory"):
        start(tmp_path / "other")


def test_a_copy_of_a_data_directory_is_not_used_beside_it(
    data: Path, away: Path, tmp_path: Path
) -> None:
    first, copy = claim(data, away), tmp_path / "copy"
    copy.mkdir()
    (copy / MARK).write_text((data / MARK).read_text())
    (copy / "tables").symlink_to(away)
    with pytest.raises(DirectoryRefused, match="is in use by another broker"):
        start(copy)
    first.close()
    start(copy)


def test_of_two_first_starts_at_once_one_has_the_warehouse(
    data: Path, away: Path, tmp_path: Path
) -> None:
    running: list[DataDirectory] = []

    def meanwhile() -> bytes:
        running.append(claim(tmp_path / "other", away))
        return bytes(16)

    start(data)
    with pytest.raises(DirectoryRefused, match="warehouse of another data directory"):
        use_warehouse(PosixFiles(), data, away, meanwhile)
    check_warehouse(tmp_path / "other")
    assert [one.name for one in away.iterdir()] == [MARK]
    running[0].close()
    start(tmp_path / "other", away)
    start(data)


@pytest.mark.parametrize(
    ("place", "why"),
    [(".", "share a place"), ("data/wal", "share a place"), ("data", "share a place"),
     ("other/tables", "lies in the data directory"),
     ("other/tables/t", "lies in the data directory"),
     ("far/away/t", "lies in the warehouse")],
)  # fmt: skip
def test_a_warehouse_is_no_part_of_a_data_directory_or_of_another(
    data: Path, away: Path, tmp_path: Path, place: str, why: str
) -> None:
    """Whose topic may be called as it is, and be deleted."""
    (tmp_path / "other").mkdir()
    start(tmp_path / "another", away)
    (tmp_path / "other" / "catalog.db").touch()
    with pytest.raises(DirectoryRefused, match=why):
        start(data, tmp_path / place)
    start(data, data / "tables")
    assert not (data / "tables").is_symlink()
