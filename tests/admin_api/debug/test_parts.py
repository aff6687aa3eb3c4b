"""What is in a bundle while nothing runs: what is on the disk, and why no more."""

import asyncio

from admin_api.debug.bundle import gather
from admin_api.debug.parts import Known, parts_of


def test_without_a_broker_there_is_what_the_plane_has_itself(lonely):
    state = lonely.app.state
    sources = (state.lake, state.facts, state.kafka, state.status)
    compactor = state.loggers.compactor
    lines = ["one", "two"]
    known = Known(state.settings, state.internal, compactor, sources, lines)
    found, missing = asyncio.run(gather(parts_of(known)))
    assert found.keys() == {
        "settings.json",
        "health.json",
        "admin/log.txt",
        "admin/stacks.json",
    }
    assert found["admin/log.txt"] == b"one\ntwo"
    assert missing["status/broker.json"].startswith("FileNotFoundError")
    assert "broker's internal endpoint" in missing["broker/connections.json"]
    assert "compactor's internal endpoint" in missing["compactor/stacks.json"]
