"""A line for each change and each refusal, without what was sent."""

import asyncio
import signal

import httpx
import pytest
from structlog.testing import capture_logs

from admin_api.access.audit import Audit
from admin_api.access.tokens import Role
from tests.admin_api.conftest import Plane
from tests.support.patience import IDLE_S, wait_until
from tests.support.process import BrokerPart


def logged(plane, method, path, **more):
    """The lines of the audit while it is asked; other threads log theirs."""
    with capture_logs() as events:
        plane.ask(method, path, **more)
    return [event for event in events if "caller" in event]


def test_a_refusal_says_who_and_what_and_nothing_that_was_sent(plane, guarded):
    assert guarded
    [event] = logged(plane, "GET", "/v1/topics/t/records?filter=value=='s3cret'")
    assert event == {
        "event": "refused",
        "log_level": "warning",
        "method": "GET",
        "path": "/v1/topics/t/records",
        "status": 401,
        "caller": "stranger",
        "peer": "127.0.0.1",
    }
    header = guarded[Role.VIEWER]
    [event] = logged(plane, "DELETE", "/v3/clusters/x/topics/t", headers=header)
    assert (event["status"], event["caller"]) == (
        403,
        header["authorization"].split("_")[1],
    )
    assert header["authorization"].split("_", 2)[2] not in str(event)


def test_a_change_is_logged_with_its_outcome(plane):
    body = {"topic_name": "audited"}
    [event] = logged(plane, "POST", f"{plane.cluster}/topics", json=body)
    assert (event["event"], event["status"]) == ("changed", 201)
    assert event["caller"] == "anyone"
    assert "audited" not in str(event)


@pytest.mark.parametrize(("method", "path"), [("POST", "/nowhere"), ("PUT", "/livez")])
def test_a_stranger_is_told_from_anyone_where_no_route_asks(
    plane, guarded, method, path
):
    [event] = logged(plane, method, path)
    assert event["status"] in (404, 405)
    assert event["event"] == "not changed"
    assert event["caller"] == "stranger"
    [event] = logged(plane, method, path, headers=guarded[Role.VIEWER])
    assert event["caller"] == guarded[Role.VIEWER]["authorization"].split("_")[1]


def test_a_change_that_nothing_came_of_is_not_called_one(plane):
    [event] = logged(plane, "DELETE", f"{plane.cluster}/topics/nowhere")
    assert (event["event"], event["status"]) == ("not changed", 404)
    [event] = logged(plane, "PUT", "/v1/loggers/none", json={"level": "info"})
    assert (event["event"], event["status"]) == ("not changed", 404)


def test_topics_of_which_none_could_be_altered_are_not_called_changed(plane):
    plane.create("unaltered")
    path = f"{plane.cluster}/topics/-/configs:alter"
    entry = {"name": "retention.ms", "value": "1"}
    no_topic = {"topic_name": "nowhere", "configs": [entry]}
    no_number = {"topic_name": "unaltered", "configs": [entry | {"value": "x"}]}
    [event] = logged(plane, "POST", path, json={"data": [no_topic, no_number]})
    assert (event["event"], event["status"]) == ("not changed", 207)
    one = {"topic_name": "unaltered", "configs": [entry]}
    [event] = logged(plane, "POST", path, json={"data": [no_topic, one]})
    assert (event["event"], event["status"]) == ("changed", 207)


def test_topics_that_may_have_been_altered_though_nobody_said_so_are_told(
    tmp_path, monkeypatch
):
    part = BrokerPart(tmp_path / "data")
    part.start()
    plane = Plane(part.bootstrap, part.data_dir)
    topic, kafka = plane.create("altered-late"), plane.app.state.kafka
    path, alter = f"{plane.cluster}/topics/-/configs:alter", kafka.alter_configs
    entry = {"name": "retention.ms", "value": "12345"}

    async def unanswered(*said):
        part.process.send_signal(signal.SIGSTOP)
        assert part.stopped(IDLE_S)
        with monkeypatch.context() as hasty:
            hasty.setattr(kafka, "timeout_s", 2.0)
            return await alter(*said)

    monkeypatch.setattr(kafka, "alter_configs", unanswered)
    body = {"data": [{"topic_name": "altered-late", "configs": [entry]}]}
    [event] = logged(plane, "POST", path, json=body)
    part.go_on()
    assert (event["event"], event["status"]) == ("perhaps changed", 207)
    url = f"{topic}/configs/retention.ms"
    wait_until(lambda: plane.get(url).json().get("value") == "12345")
    plane.close()
    part.end()


def test_a_dry_run_is_not_called_a_change(plane):
    topic, entry = plane.create("rehearsed"), {"name": "retention.ms", "value": "1"}
    alter = {"data": [entry], "validate_only": True}
    of_topic = {"topic_name": "rehearsed", "configs": [entry]}
    reset = {"topics": [{"topic_name": "rehearsed"}], "to": "EARLIEST"}
    for path, body in (
        (f"{plane.cluster}/topics", {"topic_name": "new", "validate_only": True}),
        (f"{topic}/configs:alter", alter),
        (f"{plane.cluster}/topics/-/configs:alter", alter | {"data": [of_topic]}),
        ("/v1/groups/rehearsing:reset-offsets", reset),
    ):
        [event] = logged(plane, "POST", path, json=body)
        assert event["status"] < 300
        assert event["event"] == "dry run", path
    [event] = logged(plane, "POST", f"{topic}/configs:alter", json={"data": [entry]})
    assert event["event"] == "changed"
    there = {"topic_name": "rehearsed", "validate_only": True}
    [event] = logged(plane, "POST", f"{plane.cluster}/topics", json=there)
    assert (event["event"], event["status"]) == ("not changed", 400)


def test_a_page_of_another_site_is_logged_as_refused(plane):
    page = {"origin": "http://evil.example"}
    [event] = logged(plane, "DELETE", "/v3/clusters/x/topics/t", headers=page)
    assert (event["event"], event["status"]) == ("refused", 421)
    assert event["caller"] == "stranger"


def test_reading_and_producing_are_not_logged(plane):
    plane.create("quiet")
    records = f"{plane.cluster}/topics/quiet/records"
    body = {"value": {"type": "STRING", "data": "s3cret"}}
    assert logged(plane, "POST", records, json=body) == []
    assert logged(plane, "GET", "/v1/topics/quiet/records") == []


def test_what_is_done_to_a_topic_called_records_is_logged(plane):
    topic = plane.create("records")
    [event] = logged(plane, "PATCH", topic, json={"partitions_count": 2})
    assert (event["event"], event["status"]) == ("changed", 200)
    [event] = logged(plane, "DELETE", topic)
    assert (event["event"], event["status"]) == ("changed", 204)
    assert event["path"].endswith("/topics/records")


def test_a_request_that_fails_is_logged_as_what_it_is_answered():
    async def app(_scope, _receive, _send):
        raise RuntimeError("s3cret")

    async def story():
        transport = httpx.ASGITransport(app=Audit(app))
        async with httpx.AsyncClient(transport=transport) as client:
            await client.post("http://plane/x")

    with capture_logs() as events, pytest.raises(RuntimeError):
        asyncio.run(story())
    [event] = events
    assert (event["event"], event["status"]) == ("perhaps changed", 500)
    assert "s3cret" not in str(event)
