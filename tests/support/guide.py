"""The guide's blocks of code, and a shell that types them as they stand.

A block's marks are the words behind its language: ``run`` (on one ``lakelog up``
without a compactor, page after page; ``stopped``: after it has stopped), ``lake`` (with
a compactor, in the order of a story), ``up`` (starts something that stays) and
``foreign`` (needs another toolchain). What has none is not typed by a test.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from admin_api.guide.rendering import pages
from tests.support.patience import STUCK_S

ROOT = Path(__file__).parents[2]
PAGES: Mapping[str, str] = {page.name: page.markdown for page in pages()}
FENCE = re.compile(r"^```(\w+)((?: \w+)*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WRAPPER = """\
set -euo pipefail
lakelog() {
  case "$1" in
    topic|group|transactions)
      python -m broker.cli "$1" "$2" --bootstrap BROKER "${@:3}" ;;
    produce|consume) python -m broker.cli "$1" --bootstrap BROKER "${@:2}" ;;
    up) python -m tests.support.until_ready "${@:2}" ;;
    spark-conf) python -m broker.cli "$@" --metastore METASTORE ;;
    *) python -m broker.cli "$@" ;;
  esac
}
curl() {
  python -c 'import sys, urllib.request as asking
with asking.urlopen(sys.argv[-1]) as answer:
    print(answer.read().decode())' "$@"
}
"""


class Block(NamedTuple):
    """A piece of code in the guide."""

    page: str
    language: str
    marks: frozenset[str]
    code: str

    @property
    def name(self) -> tuple[str, str]:
        """Its page and its first line, which no other block of that page has."""
        return self.page, self.code.partition("\n")[0]


def blocks() -> Iterator[Block]:
    """All of them, page after page."""
    for page, text in PAGES.items():
        for language, marks, code in FENCE.findall(text):
            yield Block(page, language, frozenset(marks.split()), code)


class Typing:
    """Types into a shell beside the data directory."""

    def __init__(
        self, directory: Path, kafka: str, admin: str, metastore: str = ""
    ) -> None:
        self._directory, self._kafka, self._admin = directory, kafka, admin
        self._metastore = metastore

    def run(self, language: str, code: str) -> str:
        """What it said; AssertionError if it failed. Only addresses are other ones."""
        for shown, real in (
            ("127.0.0.1:9092", self._kafka),
            ("localhost:9092", self._kafka),
            ("http://127.0.0.1:8082", self._admin),
            ("127.0.0.1:9083", self._metastore),
        ):
            code = code.replace(shown, real)
        wrapper = _WRAPPER.replace("BROKER", self._kafka)
        wrapper = wrapper.replace("METASTORE", self._metastore)
        shell = ["bash", "-c", wrapper + code]
        command = shell if language == "sh" else [sys.executable, "-c", code]
        paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=os.environ | {"PATH": paths, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=STUCK_S,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout
