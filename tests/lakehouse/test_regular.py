"""What is no file is not waited for, and says what it is."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.regular import NotAFile, check_file, open_file


def listen(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path)


MAKES: dict[str, Callable[[str], object]] = {
    "a FIFO": os.mkfifo,
    "a directory": os.mkdir,
    "a socket": listen,
}


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize("reads", [open_file, check_file])
def test_what_is_no_file_says_what_it_is(
    tmp_path: Path, kind: str, reads: Callable[[str], object], monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    MAKES[kind]("there")
    with pytest.raises(NotAFile, match=f"^there is no file but {kind}$"):
        reads("there")


def test_a_device_is_no_file() -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(NotAFile, match="a device"):
        open_file(os.devnull)
    assert os.listdir("/proc/self/fd") == before, "it was opened, and is closed"


def test_a_file_is_read_and_one_that_is_not_there_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"what it holds")
    check_file(str(path))
    with open_file(str(path)) as file:
        assert file.read() == b"what it holds"
    with pytest.raises(FileNotFoundError):
        open_file(str(tmp_path / "nobody"))
