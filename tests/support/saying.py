"""What a compactor that is not there says of itself."""

import os
import time
from pathlib import Path
from typing import Any

from broker.status.file import encode, path_of
from broker.status.schema import CompactorStatus


def say(data_dir: Path, **what: Any) -> None:
    """The compactor says this from now on, for as long as the test takes."""
    path = path_of(data_dir, CompactorStatus)
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".new").write_bytes(encode(CompactorStatus(**what)))
    os.utime(path.with_suffix(".new"), (time.time() + 3600,) * 2)
    path.with_suffix(".new").rename(path)
