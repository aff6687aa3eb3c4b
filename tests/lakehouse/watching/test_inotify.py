"""Names are seen in the order in which they appear, and a directory that goes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.watching import inotify as module
from lakehouse.watching.inotify import Appeared, Watch


@pytest.fixture
def watch() -> Iterator[Watch]:
    watch = Watch()
    yield watch
    watch.close()


def test_names_of_several_directories_come_in_their_order(
    watch: Watch, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for directory in (one, other):
        directory.mkdir()
        assert watch.add(str(directory))
    (one / "a").touch()
    (other / "b").mkdir()
    (tmp_path / "elsewhere").touch()
    (tmp_path / "elsewhere").rename(one / "c")
    (other / "d").hardlink_to(one / "a")
    assert watch.take() == [
        Appeared(str(one), "a"),
        Appeared(str(other), "b", is_directory=True),
        Appeared(str(one), "c"),
        Appeared(str(other), "d"),
    ]
    assert watch.take() == []


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_directory_that_goes_is_watched_no_more(
    watch: Watch, tmp_path: Path, how: str
) -> None:
    one = tmp_path / "one"
    one.mkdir()
    watch.add(str(one))
    if how == "deleted":
        one.rmdir()
    else:
        one.rename(tmp_path / "other")
        (tmp_path / "other" / "file").touch()
    assert watch.take() == [Appeared(str(one), "", is_directory=True)]
    assert str(one) not in watch
    one.mkdir()
    assert watch.add(str(one))
    (one / "again").touch()
    assert watch.take()[-1] == Appeared(str(one), "again")


def test_what_is_removed_tells_nothing(watch: Watch, tmp_path: Path) -> None:
    watch.add(str(tmp_path))
    (tmp_path / "before").touch()
    assert watch.below(str(tmp_path)) == [str(tmp_path)]
    watch.remove(str(tmp_path))
    watch.remove(str(tmp_path))
    (tmp_path / "after").touch()
    assert watch.take() == []
    assert watch.below(str(tmp_path)) == []


def test_no_more_are_watched_than_the_kernel_is_to_remember(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DIRECTORIES_MAX", 1)
    (tmp_path / "one").mkdir()
    assert watch.add(str(tmp_path))
    assert not watch.add(str(tmp_path / "one"))


def test_what_is_no_directory_cannot_be_watched(watch: Watch, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("nothing", "link"):
        with pytest.raises(OSError):
            watch.add(str(tmp_path / name))
