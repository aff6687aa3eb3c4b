"""What a topic got, said beside what its table holds."""

import asyncio

from admin_api.internal import Internal
from admin_api.tables import produced as module
from admin_api.tables.produced import produced
from tests.support.confluent import produce_all
from tests.support.patience import wait_until


def asked(plane, topic, internal=None):
    state = plane.app.state
    return asyncio.run(produced(internal or state.internal, state.status, topic))


def test_a_table_says_what_its_topic_got_since_the_broker_began(plane):
    plane.create("sold", partitions=2)
    plane.create("unsold")
    records = [(None, b"v" * 1_000, None, part) for part in (0, 0, 1)]
    produce_all(plane.bootstrap, "sold", records)
    wait_until(lambda: plane.app.state.status.broker() is not None)
    found = plane.get("/v1/tables/sold").json()["produced"]
    assert found["records"] == 3
    assert 3_000 < found["bytes"] < 4_000
    assert found["since_ms"] == plane.app.state.status.broker().started_ms > 0
    assert plane.get("/v1/tables/unsold").json()["produced"]["records"] == 0


def test_a_broker_that_does_not_say_it_is_not_waited_for(plane, tmp_path, monkeypatch):
    plane.create("quiet")
    wait_until(lambda: plane.app.state.status.broker() is not None)
    assert asked(plane, "quiet") is not None
    assert asked(plane, "quiet", Internal(tmp_path)) is None
    monkeypatch.setattr(module, "BROKER_TIMEOUT_S", 0.05)

    class Hanging:
        async def rows(self, *_):
            await asyncio.Event().wait()

    assert asked(plane, "quiet", Hanging()) is None


def test_without_a_broker_nothing_is_said(lonely):
    assert asked(lonely, "any") is None
