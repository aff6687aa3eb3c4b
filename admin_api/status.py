"""What the broker and the compactor say of themselves in ``DATA/run/*.json``.

Each rewrites its file by rename every second; a file that has not changed for
``STALE_S`` belongs to a part that is gone or hung.
"""

import json
import time
from pathlib import Path
from typing import Any

STALE_S = 10.0


class StatusFiles:
    """Reads the status files of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._run = data_dir / "run"

    def read(self, part: str) -> dict[str, Any] | None:
        """The status of ``broker`` or ``compactor``; None if missing or stale."""
        path = self._run / f"{part}.json"
        try:
            if time.time() - path.stat().st_mtime > STALE_S:  # noqa: TID251
                return None
            found = json.loads(path.read_bytes())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return found if isinstance(found, dict) else None
