"""The real file system, and the forgetful one: both do what they say."""

import os
from pathlib import Path

import pytest

from broker.storage.files import IOV_MAX, PosixFiles
from tests.support.files import ForgetfulFiles, PowerCut, everything, nothing

FILE = Path("/data/file")


def test_any_number_of_parts_is_written_whole(tmp_path: Path) -> None:
    files = PosixFiles()
    file = files.create(tmp_path / "file")
    parts = [bytes([i % 251]) * (i % 7) for i in range(3 * IOV_MAX + 5)]
    files.pwritev(file, parts, 10)
    assert files.pread(file, 1 << 20, 10) == b"".join(parts)
    files.close(file)


def test_a_short_write_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwritev

    def short(file: int, parts: list[bytes], position: int) -> int:
        return real(file, [b"".join(parts)[:5]], position)

    monkeypatch.setattr(os, "pwritev", short)
    files = PosixFiles()
    file = files.create(tmp_path / "file")
    files.pwritev(file, [b"abc", b"defgh", b"ij"], 0)
    assert files.pread(file, 100, 0) == b"abcdefghij"
    files.close(file)


def test_allocated_means_reserved_and_zero(tmp_path: Path) -> None:
    files = PosixFiles()
    file = files.create(tmp_path / "file")
    size = (4 << 20) + 12345
    files.allocate(file, size)
    assert files.size(file) == size
    assert files.pread(file, size, 0) == bytes(size)
    assert os.fstat(file).st_blocks * 512 >= size
    files.close(file)


def test_a_mapping_shows_later_writes_and_is_held_by_its_parts(tmp_path: Path) -> None:
    files = PosixFiles()
    file = files.create(tmp_path / "file")
    files.allocate(file, 8192)
    mapped = files.map(file, 8192)
    part = mapped.view[4096:4100]
    files.pwritev(file, [b"text"], 4096)
    assert part == b"text"
    mapped.forget()
    assert part == b"text"
    with pytest.raises(BufferError):
        mapped.close()
    part.release()
    mapped.close()
    files.close(file)


def test_a_lock_is_held_until_it_is_closed(tmp_path: Path) -> None:
    files = PosixFiles()
    lock = files.lock(tmp_path / "lock")
    assert lock is not None
    assert files.lock(tmp_path / "lock") is None
    files.close(lock)
    assert files.lock(tmp_path / "lock") is not None


def synced_file(data: bytes) -> tuple[ForgetfulFiles, int]:
    files = ForgetfulFiles()
    file = files.create(FILE)
    files.pwritev(file, [data], 0)
    files.fdatasync(file)
    files.fsync_dir(FILE.parent)
    return files, file


def test_what_was_synced_is_there_after_a_power_cut() -> None:
    files, file = synced_file(b"synced")
    files.pwritev(file, [b"SYN and more"], 0)
    assert bytes(files.after_power_cut(nothing).names[FILE].data) == b"synced"
    left = files.after_power_cut(everything)
    assert bytes(left.names[FILE].data) == b"SYN and more"
    assert bytes(files.after_kill().names[FILE].data) == b"SYN and more"


def test_a_name_that_was_not_synced_is_forgotten() -> None:
    files, _ = synced_file(b"text")
    files.rename(FILE, FILE.with_name("new"))
    assert list(files.after_power_cut(nothing).names) == [FILE]
    assert list(files.after_power_cut(everything).names) == [FILE.with_name("new")]
    files.fsync_dir(FILE.parent)
    assert list(files.after_power_cut(nothing).names) == [FILE.with_name("new")]


def test_a_sync_that_failed_has_lost_its_writes_for_good() -> None:
    files, file = synced_file(b"old")
    files.pwritev(file, [b"new"], 0)
    files.fail("fdatasync", OSError(5, "dying"))
    with pytest.raises(OSError, match="dying"):
        files.fdatasync(file)
    files.fdatasync(file)  # says that all is well
    assert bytes(files.after_power_cut(everything).names[FILE].data) == b"old"


def test_when_the_power_is_gone_nothing_works() -> None:
    files, file = synced_file(b"text")
    files.cut_at = len(files.calls) + 1
    for call in (lambda: files.fdatasync(file), lambda: files.pread(file, 1, 0)):
        with pytest.raises(PowerCut):
            call()
