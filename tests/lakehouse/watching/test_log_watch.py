"""Whose log changes is told, whatever is done to it, and whatever was there before."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.watching import inotify
from lakehouse.watching.log_watch import LogWatch, tells

ENTRY = f"{0:020d}.json"


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[LogWatch]:
    watch = LogWatch(str(tmp_path / "tables"))
    yield watch
    watch.close()


def a_log(root: Path, name: str) -> Path:
    log = root / "tables" / name / "_delta_log"
    log.mkdir(parents=True)
    return log


def followed(watch: LogWatch, *logs: Path) -> list[str]:
    """The tables, of whose logs nothing has happened yet."""
    paths = [str(log.parent) for log in logs]
    watch.changed()
    assert all(watch.follow(path) for path in paths)
    assert watch.changed() == set()
    return paths


def test_an_entry_is_told_of_its_table_alone(watch: LogWatch, tmp_path: Path) -> None:
    one, other = a_log(tmp_path, "one"), a_log(tmp_path, "other")
    path, _ = followed(watch, one, other)
    (tmp_path / "entry").touch()
    os.link(tmp_path / "entry", one / ENTRY)
    assert watch.changed() == {path}
    assert watch.changed() == set()


@pytest.mark.parametrize("how", ["removed", "overwritten", "replaced", "moved away"])
def test_what_happens_to_an_entry_is_told(
    watch: LogWatch, tmp_path: Path, how: str
) -> None:
    log = a_log(tmp_path, "one")
    entry = log / ENTRY
    entry.write_text("{}")
    (path,) = followed(watch, log)
    if how == "removed":
        entry.unlink()
    elif how == "overwritten":
        entry.write_text("[]")
    elif how == "replaced":
        (tmp_path / "new").touch()
        (tmp_path / "new").rename(entry)
    else:
        entry.rename(tmp_path / "away")
    assert watch.changed() == {path}


@pytest.mark.parametrize("is_warehouse_there", [True, False])
def test_a_table_that_comes_is_told(
    watch: LogWatch, tmp_path: Path, *, is_warehouse_there: bool
) -> None:
    """And so are all things that come into it, one after the other."""
    if is_warehouse_there:
        (tmp_path / "tables").mkdir()
    path = str(tmp_path / "tables" / "one")
    watch.changed()
    assert watch.follow(path)
    assert watch.changed() == set()
    os.makedirs(path)
    assert watch.changed() in ({path}, None)
    assert watch.follow(path)
    Path(path, "_delta_log").mkdir()
    assert watch.changed() == {path}
    assert watch.follow(path)
    Path(path, "_delta_log", ENTRY).touch()
    assert watch.changed() == {path}


@pytest.mark.parametrize("how", ["removed", "another"])
def test_a_table_that_goes_is_told(watch: LogWatch, tmp_path: Path, how: str) -> None:
    log = a_log(tmp_path, "one")
    (path,) = followed(watch, log)
    if how == "removed":
        shutil.rmtree(path)
    else:
        Path(path).rename(tmp_path / "away")
        a_log(tmp_path, "one")
    assert watch.changed() == {path}
    assert watch.follow(path)
    log.mkdir(parents=True, exist_ok=True)
    watch.changed()
    assert watch.follow(path)
    (log / ENTRY).touch()
    assert watch.changed() == {path}


def test_a_warehouse_that_goes_and_comes_back_is_told(
    watch: LogWatch, tmp_path: Path
) -> None:
    log = a_log(tmp_path, "one")
    (path,) = followed(watch, log)
    (tmp_path / "tables").rename(tmp_path / "away")
    assert watch.changed() is None
    assert watch.changed() == set()
    (tmp_path / "away").rename(tmp_path / "tables")
    assert watch.changed() is None
    watch.leave(path)
    assert watch.follow(path)
    (log / ENTRY).touch()
    assert watch.changed() == {path}


def test_a_link_to_the_warehouse_is_looked_through(tmp_path: Path) -> None:
    log = a_log(tmp_path, "one")
    (tmp_path / "link").symlink_to(tmp_path / "tables")
    watch = LogWatch(str(tmp_path / "link"))
    watch.changed()
    path = str(tmp_path / "link" / "one")
    assert watch.follow(path)
    (log / ENTRY).touch()
    assert watch.changed() == {path}
    watch.close()


def test_a_table_that_was_left_is_told_of_no_more(
    watch: LogWatch, tmp_path: Path
) -> None:
    log = a_log(tmp_path, "one")
    (path,) = followed(watch, log)
    watch.leave(path)
    (log / ENTRY).touch()
    assert watch.changed() == set()


def test_where_nothing_is_told_nobody_is_followed(tmp_path: Path) -> None:
    log = a_log(tmp_path, "one")

    def none() -> inotify.Watch:
        raise OSError(errno.EMFILE, "too many")

    path = str(log.parent)
    assert not LogWatch(str(tmp_path / "tables"), none).follow(path)
    elsewhere = LogWatch(str(tmp_path / "tables"), tells=lambda path: False)
    assert not elsewhere.follow(path)
    assert elsewhere.changed() == set()
    few = LogWatch(
        str(tmp_path / "tables"), lambda: inotify.Watch(inotify.ANYTHING, most=1)
    )
    few.changed()
    assert not few.follow(path)


def test_so_much_that_some_was_lost_may_be_anything(
    watch: LogWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = a_log(tmp_path, "one")
    followed(watch, log)
    lost = [inotify.Appeared("", "")]
    monkeypatch.setattr(inotify.Watch, "take", lambda self: lost)
    assert watch.changed() is None


@pytest.mark.parametrize("how", ["some of it was lost", "nothing tells"])
def test_another_log_that_nothing_told_of_is_told_when_it_is_followed_anew(
    watch: LogWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The queue overflowed, or somebody has the directory open that is not there."""
    log = a_log(tmp_path, "one")
    (path,) = followed(watch, log)
    holder = os.open(log, os.O_RDONLY)
    if how == "nothing tells":
        log.rmdir()
        log.mkdir()
    else:
        Path(path).rename(tmp_path / "tables" / "away")
        log.mkdir(parents=True)
        with monkeypatch.context() as lost:
            lost.setattr(inotify.Watch, "_parsed", lambda self, data: iter(()))
            assert watch.changed() == set()
    watch.changed()
    assert watch.follow(path)
    (log / ENTRY).touch()
    assert watch.changed() == {path}
    os.close(holder)


def test_a_disk_that_comes_in_the_warehouses_place_is_looked_at_whole(
    watch: LogWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is mounted there, of which no directory tells."""
    log = a_log(tmp_path, "one")
    (path,) = followed(watch, log)
    (tmp_path / "tables").rename(tmp_path / "away")
    log = a_log(tmp_path, "one")
    with monkeypatch.context() as lost:
        lost.setattr(inotify.Watch, "_parsed", lambda self, data: iter(()))
        assert watch.changed() is None
    assert watch.follow(path)
    assert watch.changed() == set()
    (log / ENTRY).touch()
    assert watch.changed() == {path}
    a_log(tmp_path, "other")
    assert watch.changed() == {str(tmp_path / "tables" / "other")}


def test_a_link_in_a_tables_place_takes_nothing_from_the_table_it_leads_to(
    watch: LogWatch, tmp_path: Path
) -> None:
    log = a_log(tmp_path, "one")
    (path,) = followed(watch, log)
    link = tmp_path / "tables" / "link"
    link.symlink_to(path)
    assert watch.changed() == {str(link)}
    assert not watch.follow(str(link))
    (log / ENTRY).touch()
    assert watch.changed() == {path}


def test_file_systems_of_this_machine_tell() -> None:
    assert tells("/dev/shm")
    assert not tells("/proc")
    assert not tells("/nowhere")


def test_a_closed_one_holds_no_descriptor(tmp_path: Path) -> None:
    def held() -> int:
        links = [one for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        return sum(os.readlink(one) == "anon_inode:inotify" for one in links)

    before = held()
    watch = LogWatch(str(tmp_path / "tables"))
    followed(watch, a_log(tmp_path, "t"))
    assert held() == before + 1
    watch.close()
    watch.close()
    assert held() == before
