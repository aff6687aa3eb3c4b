"""One broker per directory, and none that is older than what is in it."""

from pathlib import Path

import pytest

from broker.storage.directory import DataDirectory
from broker.storage.files import PosixFiles
from broker.storage.warehouse import DirectoryRefused


def claim(path: Path, owner: str = "broker, process 7") -> DataDirectory:
    return DataDirectory.claim(PosixFiles(), path, owner)


def test_a_directory_is_made_and_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        directory = claim(tmp_path / "data")
        assert directory.wal.is_dir()
        assert directory.tables.is_dir()
        assert directory.run.is_dir()
        directory.close()


def test_a_second_broker_is_refused_and_told_whose_it_is(tmp_path: Path) -> None:
    first = claim(tmp_path, "a broker with a rather long description, process 4711")
    with pytest.raises(DirectoryRefused, match="process 4711"):
        claim(tmp_path)
    first.close()
    second = claim(tmp_path, "process 12")
    with pytest.raises(DirectoryRefused, match="in use by process 12:"):
        claim(tmp_path)
    second.close()


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    claim(tmp_path).close()
    (tmp_path / "VERSION").write_text("4\n")
    with pytest.raises(DirectoryRefused, match="newer version"):
        claim(tmp_path)
    (tmp_path / "VERSION").write_text("\0\0")
    with pytest.raises(DirectoryRefused, match="damaged"):
        claim(tmp_path)


@pytest.mark.parametrize("older", ["1\n", "2\n"])
def test_an_older_version_is_taken_over_before_anything_is_written(
    tmp_path: Path, older: str
) -> None:
    claim(tmp_path).close()
    (tmp_path / "VERSION").write_text(older)
    claim(tmp_path).close()
    assert (tmp_path / "VERSION").read_text() == "3\n"
