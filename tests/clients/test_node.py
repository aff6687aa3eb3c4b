"""KafkaJS, which asks the broker what it may speak."""

import shutil
from pathlib import Path

import pytest

from tests.support.foreign import Client, Site, build, toolchain
from tests.support.foreign_journey import travel

pytestmark = pytest.mark.foreign

SOURCES = Path(__file__).parent / "node"
FILES = ("package.json", "package-lock.json", "driver.js")


def test_kafkajs_makes_the_journey(site: Site, tmp_path: Path) -> None:
    node, npm = toolchain("Node", "node"), toolchain("npm", "npm")
    for name in FILES:
        shutil.copy(SOURCES / name, tmp_path)
    build(npm, "ci", "--no-audit", "--no-fund", cwd=tmp_path)
    client = Client("KafkaJS 2.2.4", "newest", ("none", "gzip", "snappy"))
    travel(site, client, (node, str(tmp_path / "driver.js")))
