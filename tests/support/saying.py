"""What parts that are not there say of themselves."""

import os
import time
from pathlib import Path
from typing import Any

from broker.status.file import encode, path_of
from broker.status.schema import BrokerStatus, CompactorStatus


def say(data_dir: Path, **what: Any) -> None:
    """The compactor says this from now on, for as long as the test takes."""
    say_as(data_dir, CompactorStatus(**what))


def say_as(data_dir: Path, status: BrokerStatus | CompactorStatus) -> None:
    """A part says this from now on, for as long as the test takes."""
    path = path_of(data_dir, type(status))
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".new").write_bytes(encode(status))
    os.utime(path.with_suffix(".new"), (time.time() + 3600,) * 2)
    path.with_suffix(".new").rename(path)
