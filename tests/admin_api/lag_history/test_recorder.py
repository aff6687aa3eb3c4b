"""The recorder: gaps while the broker is away, and an end."""

import asyncio

import pytest
from confluent_kafka import KafkaException
from structlog.testing import capture_logs

from admin_api.lag_history import recorder
from tests.support.odd_groups import odd_groups


def test_without_a_broker_nothing_is_kept_and_it_goes_on(lonely, monkeypatch):
    recording = lonely.app.state.lag_recorder
    rounds = []

    async def passed(_s):
        rounds.append(len(recording.ring))
        if len(rounds) == 2:
            raise asyncio.CancelledError

    monkeypatch.setattr(recorder.asyncio, "sleep", passed)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(recording.run())
    assert rounds == [0, 0]
    with pytest.raises(KafkaException):
        asyncio.run(recording.record())


def test_of_a_group_with_very_many_offsets_no_more_are_asked_for_than_kept(
    plane, monkeypatch
):
    plane.create("very-broad", 6)
    body = {"to": "LATEST", "topics": [{"topic_name": "very-broad"}]}
    url = "/v1/groups/large:reset-offsets"
    assert plane.post(url, body | {"dry_run": False}).is_success
    recording = plane.app.state.lag_recorder
    monkeypatch.setattr(recorder, "SERIES_MAX", 4)
    asked = []
    offsets = recording._kafka.offsets

    async def noted(wanted, spec):
        asked.extend(wanted)
        return await offsets(wanted, spec)

    monkeypatch.setattr(recording._kafka, "offsets", noted)
    asyncio.run(recording.record())
    assert len(asked) == 4


def test_a_group_that_cannot_be_asked_for_leaves_no_gap_for_others(plane):
    plane.create("oddly-kept")
    recording = plane.app.state.lag_recorder
    with odd_groups(plane.bootstrap, "oddly-kept"):
        asyncio.run(recording.record())
    assert [one.topic for one in recording.ring.series("sound")] == ["oddly-kept"]
    assert recording.left_out.groups == 1


def test_a_fault_of_ours_is_logged_and_does_not_end_it(lonely, monkeypatch):
    recording = lonely.app.state.lag_recorder

    async def broken():
        raise ZeroDivisionError

    async def passed(_s):
        raise asyncio.CancelledError

    monkeypatch.setattr(recording, "record", broken)
    monkeypatch.setattr(recorder.asyncio, "sleep", passed)
    with capture_logs() as events, pytest.raises(asyncio.CancelledError):
        asyncio.run(recording.run())
    assert [event["log_level"] for event in events] == ["error"]
