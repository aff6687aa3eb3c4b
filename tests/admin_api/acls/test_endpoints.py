"""Without an authorizer ACLs are refused, as a Kafka without one refuses them."""

import pytest

ACL = {
    "resource_type": "TOPIC",
    "resource_name": "t",
    "pattern_type": "LITERAL",
    "principal": "User:a",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
FILTER = "resource_type=TOPIC&pattern_type=LITERAL&operation=READ&permission=ALLOW"


def test_security_is_disabled(plane):
    acls = plane.get(plane.cluster).json()["acls"]["related"]
    for answer in (
        plane.get(acls),
        plane.get(f"{acls}?principal=User:a&resource_name=t"),
        plane.post(acls, ACL),
        plane.post(f"{acls}:batch", {"data": [ACL, ACL]}),
        plane.ask("DELETE", f"{acls}?{FILTER}"),
    ):
        assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)
        assert "No Authorizer is configured" in answer.json()["message"]


@pytest.mark.parametrize(
    "body", [{}, ACL | {"operation": "FLY"}, ACL | {"more": 1}, ACL | {"host": ""}]
)
def test_an_acl_that_cannot_be_is_refused_in_words(plane, body):
    answer = plane.post(f"{plane.cluster}/acls", body)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 400)


def test_nothing_is_deleted_by_leaving_everything_out(plane):
    answer = plane.ask("DELETE", f"{plane.cluster}/acls")
    assert (answer.status_code, answer.json()["error_code"]) == (400, 400)
    assert "resource_type" in answer.json()["message"]
