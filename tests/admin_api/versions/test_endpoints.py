"""Versions over HTTP."""

import pytest

from tests.support.laked import make_table


@pytest.fixture
def url(lonely):
    writer = make_table(lonely.data_dir, "orders")
    writer.add(0, 0, 5)
    writer.add(0, 5, 9)
    return "/v1/tables/orders/versions"


def test_an_offset_leads_to_a_version_and_it_back(lonely, url):
    found = lonely.get(f"{url}?partition=0&offset=6").json()
    assert (found["version"], found["exact"]) == (2, True)
    back = lonely.get(f"{url}?version=1").json()
    assert back["ends"] == [{"partition_id": 0, "end_offset": 5}]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("?partition=0", 400),
        ("?partition=0&offset=-1", 400),
        ("?partition=0&offset=9", 404),
        ("?partition=2&offset=0", 404),
        ("?version=3", 404),
        ("?version=9223372036854775807", 404),
        ("?version=9223372036854775808", 400),
    ],
)
def test_what_cannot_be_answered_says_why(lonely, url, query, status):
    answer = lonely.get(url + query)
    assert answer.status_code == status, answer.text
    assert len(answer.json()["message"]) > 10
