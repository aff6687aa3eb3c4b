"""Names with a slash, as a path writes them, on a real server."""

import http.client
import json

import pytest

from tests.support.patience import IDLE_S


def asked(address, path):
    connection = http.client.HTTPConnection(*address, timeout=IDLE_S)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


@pytest.fixture
def cluster(plane):
    return plane.cluster.removeprefix("http://plane")


@pytest.mark.parametrize("written", ["a%2Fb", "%2f", "a%2Fb%2F", "%252F%2F"])
def test_a_slash_that_is_written_out_belongs_to_the_name(address, cluster, written):
    name = written.replace("%2F", "/").replace("%2f", "/").replace("%25", "%")
    status, answer = asked(address, f"{cluster}/consumer-groups/{written}")
    assert (status, answer["message"]) == (
        404,
        f"Consumer group {name} could not be found.",
    )


def test_a_path_without_a_name_for_it_is_not_there(address, cluster):
    status, answer = asked(address, f"{cluster}/consumer-groups/a/b")
    assert (status, answer["message"]) == (404, "HTTP 404 Not Found")


@pytest.mark.parametrize(
    ("path", "status", "shown"),
    [
        ("/topics/a%2Fb", 400, "'a/b' contains"),
        ("/topics/a%2Fb/partitions", 400, "'a/b' contains"),
        ("/brokers/1%2F2", 400, "broker_id"),
        ("/topics%2Fa", 404, "Not Found"),
    ],
)
def test_what_has_no_slash_in_its_name_says_so(address, cluster, path, status, shown):
    found, answer = asked(address, cluster + path)
    assert found == status
    assert shown in answer["message"]


def test_a_byte_that_is_no_text_is_not_a_slash(address, cluster):
    status, answer = asked(address, f"{cluster}/consumer-groups/a%ED%B0%AFb%2F")
    assert status == 404
    assert "a/b/" not in answer["message"]


@pytest.mark.parametrize(
    "path", ["/topics/", "/consumer-groups/a%2Fb/", "/consumer-groups/a%252Fb/"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_slash_too_many_at_the_end_leads_nowhere(
    address, cluster, guarded, path, method
):
    """Nor does it say to a stranger that there is such a route."""
    connection = http.client.HTTPConnection(*address, timeout=IDLE_S)
    for headers in ({}, *guarded.values()):
        connection.request(method, cluster + path, headers=headers)
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("location")) == (404, None)
        assert json.loads(answer.read())["error_code"] == 404
    connection.close()
