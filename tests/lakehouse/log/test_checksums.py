"""What a checkpoint was when it was proven, and what becomes of one that differs."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from lakehouse.log import checksums
from lakehouse.log.checksums import (
    KEPT,
    NAME,
    Checksum,
    NotAsWritten,
    differing,
    forget,
    measure,
    note,
    noted,
    read_verified,
    written_anew,
)
from tests.support.syscalls import SystemCalls


def flip(path: Path, at: int = 0) -> None:
    """One bit is another one, as a failing disk has it: the file's times are not."""
    times, whole = os.stat(path), bytearray(path.read_bytes())
    whole[at] ^= 1
    path.write_bytes(whole)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(b"checkpoint")
    note(str(tmp_path), {"a": measure(str(tmp_path / "a"))})
    return tmp_path


def test_what_was_noted_is_verified(log: Path) -> None:
    known = noted(str(log))["a"]
    assert read_verified(str(log / "a"), known) == b"checkpoint"
    assert differing(str(log)) == []
    flip(log / "a")
    with pytest.raises(NotAsWritten, match="not as it was written"):
        read_verified(str(log / "a"), known)
    assert differing(str(log)) == ["a"]
    assert not written_anew(str(log / "a"), known)


def test_who_writes_it_anew_is_no_failing_disk(log: Path) -> None:
    known = noted(str(log))["a"]
    (log / "a").write_bytes(b"another")
    os.utime(log / "a", ns=(1, known.modified_ns + 1))
    assert written_anew(str(log / "a"), known)
    os.unlink(log / "a")
    assert not written_anew(str(log / "a"), known)
    assert differing(str(log)) == []


def test_a_flipped_bit_in_the_checksums_vouches_for_nothing(log: Path) -> None:
    for at in range((log / NAME).stat().st_size):
        flip(log / NAME, at)
        assert noted(str(log)) == {}
        assert differing(str(log)) == [NAME]
        flip(log / NAME, at)
    assert noted(str(log)).keys() == {"a"}
    note(str(log), {"a": measure(str(log / "a"))})
    assert not (log / f"{NAME}.tmp").exists()


def test_only_the_newest_that_are_there_are_kept(log: Path) -> None:
    for n in range(KEPT + 5):
        (log / f"{n:020d}").write_bytes(b"")
        note(str(log), {f"{n:020d}": measure(str(log / f"{n:020d}"))})
    found = noted(str(log))
    assert len(found) == KEPT
    assert min(found) == f"{6:020d}"
    os.unlink(log / f"{50:020d}")
    note(str(log), {"a": found[f"{51:020d}"]})
    assert f"{50:020d}" not in noted(str(log))


def files(log: Path, *names: str) -> dict[str, Checksum]:
    """Files of the log, and their checksums."""
    for name in names:
        (log / name).write_bytes(b"")
    return {name: measure(str(log / name)) for name in names}


def test_of_a_checkpoint_in_many_parts_all_are_known_at_once(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = KEPT + 1
    names = [f"{7:020d}.checkpoint.{n:010d}.{count:010d}" for n in range(count)]
    names.append(f"{6:020d}.checkpoint")  # of one version there are not too many
    found, calls = files(log, *names), SystemCalls(monkeypatch, log)
    note(str(log), found)
    assert noted(str(log)).keys() == {"a", *names}
    assert len(calls.of("rename")) == 1


def test_the_newest_of_ours_is_known_however_many_others_make(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "KEPT", 2)
    names = [f"{n:020d}" for n in range(9)]
    found = files(log, *names)
    for n, name in enumerate(names):
        note(str(log), {name: found[name]._replace(is_ours=n < 4)})
    known = noted(str(log))
    assert [n for n, name in enumerate(names) if name in known] == [2, 3, 8]
    assert "a" in known


def test_what_was_noted_before_somebody_asked_whose_it_is_is_nobodys(
    log: Path,
) -> None:
    """As the version before noted it."""
    found = noted(str(log))["a"]
    text = json.dumps({"a": found[:3]}).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    (log / NAME).write_bytes(digest + b"\n" + text)
    assert noted(str(log)) == {"a": found}
    assert not found.is_ours
    note(str(log), {"a": found._replace(is_ours=True)})
    assert noted(str(log))["a"].is_ours


def test_what_is_forgotten_is_read_as_it_is(log: Path) -> None:
    forget(str(log), {"b"})
    assert noted(str(log)).keys() == {"a"}
    forget(str(log), {"a"})
    assert noted(str(log)) == {}
    assert differing(str(log)) == []


def test_no_checksums_are_none(tmp_path: Path) -> None:
    assert noted(str(tmp_path)) == {}
    assert differing(str(tmp_path)) == []
    (tmp_path / NAME).mkdir()  # no read of it succeeds
    assert noted(str(tmp_path)) == {}
    assert differing(str(tmp_path)) == [NAME]


def test_what_is_no_file_is_not_waited_for_and_vouches_for_nothing(log: Path) -> None:
    (log / "a").unlink()
    os.mkfifo(log / "a")
    assert differing(str(log)) == ["a"]
    (log / NAME).unlink()
    os.mkfifo(log / NAME)
    assert noted(str(log)) == {}
    assert differing(str(log)) == [NAME]
