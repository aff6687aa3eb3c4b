"""A merge stops before the disk is so full that the log stops."""

from pathlib import Path

import pytest

from broker.settings import WalSettings
from jobs import space
from jobs.merging import room
from jobs.merging.room import NoRoom, check_room


def test_a_disk_with_room_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "ROOM_BYTES", 0)
    check_room(str(tmp_path))


def test_a_disk_without_is_left_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "ROOM_BYTES", 1 << 62)
    monkeypatch.setattr(space, "SHARE", 1 << 62)
    check_room(str(tmp_path))
    monkeypatch.setattr(space, "SHARE", 1)
    with pytest.raises(NoRoom, match="bytes are free"):
        check_room(str(tmp_path))


def test_a_merge_stops_before_room_is_made_and_before_the_broker_stops() -> None:
    assert 2 * WalSettings().low_space_bytes < room.ROOM_BYTES
