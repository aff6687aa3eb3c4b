"""rskafka: it has no groups, and a header of each name once."""

from pathlib import Path

import pytest

from tests.support.foreign import Client, Site, build, toolchain
from tests.support.foreign_journey import travel

pytestmark = pytest.mark.foreign

SOURCES = Path(__file__).parent / "rust"
LACKS = frozenset({"group", "transactions", "repeated headers"})
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_rskafka_makes_the_journey(site: Site, tmp_path: Path) -> None:
    cargo = toolchain("Rust", "cargo")
    build(cargo, "build", "--locked", "--target-dir", str(tmp_path), cwd=SOURCES)
    client = Client("rskafka 0.6.0", "newest", CODECS, LACKS)
    travel(site, client, (str(tmp_path / "debug" / "lakelog-clients"),))
