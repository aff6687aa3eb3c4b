"""Whether there is a Java that Spark runs on."""

import os
import re
import shutil
from pathlib import Path
from typing import Final

JAVA_MIN: Final = 17
NO_JAVA: Final = f"Java {JAVA_MIN} or newer was not found"
JAVA_WANTED: Final = f"{NO_JAVA}: set JAVA_HOME, or put java on the PATH"


def java_found() -> bool:
    """Whether Spark will find a Java that it runs on; it looks in the same places."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    return found is not None and _java_version(Path(found)) >= JAVA_MIN


def _java_version(java: Path) -> int:
    """Its first number, by the file that each has; one without is taken for new."""
    try:
        text = (java.resolve().parents[1] / "release").read_text()
    except OSError:
        return JAVA_MIN
    said = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(said[1]) if said else JAVA_MIN
