"""A file that is locked is held while it is the one that lies there, and no longer."""

import os

import pytest

from broker.storage.files import PosixFiles
from jobs.held_file import HeldFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mark"


@pytest.fixture
def held(path):
    held = HeldFile(PosixFiles(), path)
    yield held
    held.release()


def test_nothing_is_held_at_first(held, path):
    path.touch()
    assert not held.is_there()


def test_what_does_not_lie_there_is_made(held, path):
    assert held.take()
    assert path.exists()
    assert held.is_there()


def test_of_two_one_has_it_until_it_is_released(held, path):
    other = HeldFile(PosixFiles(), path)
    assert held.take()
    assert not other.take()
    assert not other.is_there()
    held.release()
    assert other.take()
    assert not held.is_there()
    other.release()


def test_who_has_it_may_take_it_again(held):
    assert held.take()
    assert held.take()
    assert held.is_there()


@pytest.mark.parametrize("instead", ["another file", "nothing"])
def test_one_that_is_not_there_any_more_is_released(held, path, instead):
    assert held.take()
    os.rename(path, path.with_name("old"))
    if instead == "another file":
        path.touch()
    assert not held.is_there()
    old = HeldFile(PosixFiles(), path.with_name("old"))
    assert old.take()
    old.release()


def test_where_no_file_can_be_made_it_is_told(tmp_path):
    with pytest.raises(FileNotFoundError):
        HeldFile(PosixFiles(), tmp_path / "away" / "mark").take()
