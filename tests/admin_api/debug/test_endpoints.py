"""The debug bundle of a running broker: all of it, and no secret."""

import asyncio
import io
import json
import tarfile

from admin_api.access.tokens import FILE, Role
from tests.support.confluent import produce_all


def members(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/gzip"
    assert ".tar.gz" in answer.headers["content-disposition"]
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        return {
            member.name.removeprefix("lakelog-debug/"): tar.extractfile(member).read()
            for member in tar
        }


def test_it_has_what_somebody_needs_who_was_not_there(plane):
    plane.create("bundled")
    produce_all(plane.bootstrap, "bundled", [(b"k", b"s3cret record", None, 0)])
    found = members(plane.get("/v1/debug/bundle"))
    manifest = json.loads(found["manifest.json"])
    assert manifest["missing"].keys() == {
        "status/compactor.json",
        "spark-log.txt",
        "compactor/loggers.json",
        "compactor/stacks.json",
    }
    assert {"settings.json", "metrics.txt", "wal.json", "admin/stacks.json"} <= set(
        found
    )
    assert json.loads(found["broker/segments.json"])[0]["bytes"] > 0
    assert json.loads(found["broker/connections.json"])
    assert "MainThread" in str(json.loads(found["broker/stacks.json"]))
    lines = [row["line"] for row in json.loads(found["broker/log.json"])]
    assert any("serving" in line for line in lines)
    assert "bundled" in [one["topic_name"] for one in json.loads(found["tables.json"])]
    assert b"lakelog_broker_up" in found["metrics.txt"]
    assert not [name for name, part in found.items() if b"s3cret" in part]


def test_neither_tokens_nor_their_hashes_are_in_it(plane, guarded):
    answer = plane.ask("GET", "/v1/debug/bundle", headers=guarded[Role.ADMIN])
    kept = json.loads((plane.data_dir / FILE).read_text())["tokens"]
    secrets = [one["sha256"] for one in kept]
    secrets += [
        header["authorization"].rpartition(" ")[2] for header in guarded.values()
    ]
    for part in members(answer).values():
        assert not [one for one in secrets if one.encode() in part]


def test_one_is_made_at_a_time(plane):
    asyncio.run(plane.app.state.bundles.acquire())
    try:
        answer = plane.get("/v1/debug/bundle")
        assert answer.json()["error_code"] == 42901
    finally:
        plane.app.state.bundles.release()
