"""A bundle's parts: bounded, and each for itself."""

import asyncio
import io
import json
import tarfile

from admin_api.debug import bundle
from admin_api.debug.bundle import archive, gather, listing, tail
from tests.support.patience import STUCK_S


def test_a_part_that_fails_is_named_and_the_others_are_there(monkeypatch):
    async def well():
        return b"12345"

    async def broken():
        raise OSError("no such disk")

    monkeypatch.setattr(bundle, "PART_BYTES_MAX", 3)
    found, missing = asyncio.run(gather({"a": broken, "b": well}))
    assert found == {"b": b"123"}
    assert missing == {"a": "OSError: no such disk"}
    made = archive(found, missing, 5_000)
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        assert tar.getnames() == ["lakelog-debug/manifest.json", "lakelog-debug/b"]
        manifest = json.load(tar.extractfile("lakelog-debug/manifest.json"))
    assert manifest["missing"] == missing
    assert manifest["parts"] == {"b": 3}
    assert "confluent-kafka" in manifest["packages"]


def test_parts_are_asked_for_together():
    async def story():
        both = asyncio.Barrier(2)

        async def part():
            await both.wait()
            return b"1"

        return await gather({"b": part, "a": part})

    found, missing = asyncio.run(asyncio.wait_for(story(), STUCK_S))
    assert list(found) == ["b", "a"]
    assert missing == {}


def test_of_a_log_only_the_end_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "TAIL_BYTES", 4)
    (tmp_path / "log").write_bytes(b"0123456789")
    assert tail(tmp_path / "log") == b"6789"


def test_a_directory_is_names_and_sizes(tmp_path):
    (tmp_path / "b").write_bytes(b"xx")
    (tmp_path / "a").touch()
    (tmp_path / "dir").mkdir()
    assert json.loads(listing(tmp_path)) == [
        {"name": "a", "bytes": 0},
        {"name": "b", "bytes": 2},
    ]
