"""A small file says what the compactor does; it is never half written."""

import json
from pathlib import Path

from jobs.status import StatusFile


def test_it_is_replaced_as_a_whole(tmp_path: Path) -> None:
    said = {"rounds": 1}
    path = tmp_path / "run" / "compactor.json"
    status = StatusFile(path, lambda: said)
    status.start()
    assert json.loads(path.read_text()) == said
    said["rounds"] = 2
    status.stop()
    assert json.loads(path.read_text()) == {"rounds": 2}
    assert [p.name for p in path.parent.iterdir()] == ["compactor.json"]


def test_a_full_disk_does_not_stop_it(tmp_path: Path) -> None:
    StatusFile(tmp_path / "missing" / "compactor.json", dict).write()
