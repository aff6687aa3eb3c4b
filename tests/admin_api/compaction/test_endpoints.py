"""Compacting over HTTP."""

import pytest

from admin_api.compaction.operations import Operations
from admin_api.lake import Lake
from broker.catalog import requests
from tests.support.laked import make_topic


@pytest.fixture
def url(lonely):
    make_topic(lonely.data_dir, "orders")
    return "/v1/tables/orders:compact"


def test_what_is_not_done_is_a_202_that_can_be_asked_for_until_it_is(lonely, url):
    asked = lonely.post(url, None)
    assert asked.status_code == 202
    place = asked.headers["Location"]
    assert place == asked.json()["metadata"]["self"]
    assert "no compactor is running" in asked.json()["reason"]
    assert lonely.get(place).json()["state"] == "RUNNING"
    number = asked.json()["operation_id"]
    Lake(lonely.data_dir).change(lambda c: requests.done(c, number, 9))
    done = lonely.get(place)
    assert (done.status_code, done.json()["state"]) == (200, "DONE")


@pytest.mark.parametrize("name", ["timeout", "timeout_s"])
def test_it_is_waited_for_as_long_as_said(lonely, url, name, monkeypatch):
    waited = []

    async def completed(_, operation, timeout_s):
        waited.append(timeout_s)
        return operation

    monkeypatch.setattr(Operations, "completed", completed)
    for query in ("", f"?{name}=1.5", f"?{name}=0"):
        assert lonely.post(f"{url}{query}", None).status_code == 202
    assert waited == [10.0, 1.5, 0.0]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/tables/nobody:compact", 404),
        ("/v1/tables/a%20b:compact", 400),
        ("/v1/tables/orders:compact?timeout=61", 400),
        ("/v1/tables/orders:compact?timeout=-1", 400),
        ("/v1/tables/orders:compact?timeout=nan", 400),
        ("/v1/tables/orders:compact?timeout=1&wait=1", 400),
        ("/v1/tables/orders:compact?timeout_s=61", 400),
        ("/v1/tables/orders:compact?timeout_s=-1", 400),
        ("/v1/tables/orders:compact?timeout_s=nan", 400),
    ],
)
def test_what_cannot_be_asked_says_why(lonely, url, path, status):
    answer = lonely.post(path, None)
    assert answer.status_code == status, answer.text
    assert Lake(lonely.data_dir).read(requests.pending) == []


@pytest.mark.parametrize(("number", "status"), [("1", 404), ("0", 400), ("x", 400)])
def test_operations_that_are_not_there(lonely, url, number, status):
    assert lonely.get(f"/v1/operations/{number}").status_code == status


def test_without_a_catalog_there_is_nobody_to_ask(lonely):
    answer = lonely.post("/v1/tables/orders:compact", None)
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
    assert not (lonely.data_dir / "catalog.db").exists()
