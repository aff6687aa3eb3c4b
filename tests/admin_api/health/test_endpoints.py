"""Liveness and readiness, with reasons."""

import asyncio
import os

import httpx
import pytest

from admin_api.access.tokens import Role, Tokens
from admin_api.health.endpoints import FOR_STRANGERS
from admin_api.health.reasons import NO_BROKER
from broker.catalog.catalog import Catalog
from broker.status.file import encode, path_of
from broker.status.schema import BrokerStatus, CompactorStatus
from tests.admin_api.conftest import Plane
from tests.support.patience import IDLE_S, Patience
from tests.support.process import BrokerPart
from tests.support.saying import say_as


def say(plane, status):
    (plane.data_dir / "run").mkdir(exist_ok=True)
    path_of(plane.data_dir, type(status)).write_bytes(encode(status))


def ready(plane):
    """The answer that it is ready: a busy broker may not answer a probe in time."""
    patience = Patience()
    while (answer := plane.get("/readyz")).status_code != 200:
        assert patience.lasts(), answer.text
    return answer


def test_it_lives_whatever_the_broker_does(lonely):
    answer = lonely.get("/livez")
    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


def test_without_a_broker_it_is_not_ready_and_says_why(lonely):
    answer = lonely.get("/readyz")
    assert answer.status_code == 503
    found = answer.json()
    assert found["ready"] is False
    unreachable, missing = found["reasons"]
    assert "does not answer" in unreachable
    assert missing == "the broker's status file is missing or stale"


def test_a_disk_that_hangs_holds_up_nobody_who_asks_whether_it_lives(lonely):
    path = path_of(lonely.data_dir, BrokerStatus)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)  # who reads it waits until somebody writes

    async def story():
        transport = httpx.ASGITransport(app=lonely.app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://plane", timeout=None
        ) as client:
            ready = asyncio.create_task(client.get("/readyz"))
            await asyncio.sleep(0)
            alive = await client.get("/livez")
            assert alive.status_code == 200
            assert not ready.done()
            await asyncio.to_thread(path.write_bytes, b"{")
            return await ready

    answer = asyncio.run(asyncio.wait_for(story(), IDLE_S))
    assert answer.status_code == 503


def test_a_stranger_is_told_no_names(lonely):
    say(lonely, BrokerStatus(problems=("orders-0 cannot be read: /data/secret",)))
    say(lonely, CompactorStatus(problems=("orders cannot be compacted",)))
    _, text = Tokens(lonely.data_dir).create(Role.VIEWER, "", 0)
    for more in ({}, {"headers": {"authorization": "Bearer x"}}):
        answer = lonely.ask("GET", "/readyz", **more)
        assert answer.status_code == 503
        assert answer.json() == {
            "ready": False,
            "reasons": [FOR_STRANGERS],
            "warnings": [],
        }
    known = {"authorization": f"Bearer {text}"}
    assert "orders-0" in lonely.ask("GET", "/readyz", headers=known).text
    assert "orders" not in lonely.ask("GET", "/readyz", headers={"host": "evil"}).text


def test_what_the_broker_says_of_itself_is_a_reason(lonely):
    say(lonely, BrokerStatus(problems=("nothing can be written: disk full",)))
    reasons = lonely.get("/readyz").json()["reasons"]
    assert reasons[1:] == ["nothing can be written: disk full"]


def test_a_broker_that_serves_is_ready_and_a_missing_compactor_a_warning(plane):
    answer = ready(plane)
    assert answer.json()["ready"] is True
    assert answer.json()["reasons"] == []
    [warning] = answer.json()["warnings"]
    assert "no compactor is running" in warning
    assert plane.get("/status/ready").status_code == 200


@pytest.mark.parametrize("runs", [True, False])
def test_before_the_broker_of_another_directory_it_is_not_ready(plane, tmp_path, runs):
    other = Plane(plane.bootstrap, tmp_path)
    with Catalog.open(tmp_path / "catalog.db", cluster_id="its-own"):
        pass
    if runs:
        say_as(tmp_path, BrokerStatus(cluster_id="its-own"))
    patience = Patience()  # a busy broker may not answer a probe in time
    while "does not answer" in (answer := other.get("/readyz")).text:
        assert patience.lasts(), answer.text
    assert answer.status_code == 503
    served = plane.cluster.rpartition("/")[2]
    reason, *more = answer.json()["reasons"]
    assert reason == (
        f"at {plane.bootstrap} answers cluster {served}, and the data directory is "
        "of cluster its-own: say where its broker is (--bootstrap)"
    )
    assert more == ([] if runs else [NO_BROKER])
    health = other.get("/v1/health").json()
    assert health["reasons"][0] == reason
    assert health["broker"]["answers"] is False
    other.close()


def test_what_the_compactor_cannot_do_is_a_warning(plane):
    say(plane, CompactorStatus())
    assert ready(plane).json()["warnings"] == []
    why = "orders cannot be compacted: its table takes no commit"
    say(plane, CompactorStatus(problems=(why,)))
    assert ready(plane).json()["warnings"] == [why]
    path_of(plane.data_dir, CompactorStatus).unlink()


def test_readiness_ends_with_the_broker(tmp_path):
    part = BrokerPart(tmp_path / "data")
    part.start()
    own = Plane(part.bootstrap, part.data_dir)
    ready(own)
    part.kill()
    assert own.get("/readyz").status_code == 503
    assert own.get("/livez").status_code == 200
