"""A merge stops before the disk is so full that the log stops."""

from pathlib import Path

import pytest

from jobs.merging import room
from jobs.merging.room import NoRoom, check_room


def test_a_disk_with_room_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "ROOM_BYTES", 0)
    check_room(str(tmp_path))


def test_of_a_small_disk_a_share_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "ROOM_BYTES", 1 << 62)
    monkeypatch.setattr(room, "ROOM_SHARE", 1 << 62)
    check_room(str(tmp_path))
    monkeypatch.setattr(room, "ROOM_SHARE", 1)
    with pytest.raises(NoRoom, match="bytes are free"):
        check_room(str(tmp_path))
