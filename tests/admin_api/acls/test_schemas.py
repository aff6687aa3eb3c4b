"""ACLs in the Confluent v3 shape."""

from urllib.parse import parse_qs, urlsplit

import pytest

from admin_api.acls.schemas import AclDeletion, AclQuery, CreateAcl, render
from admin_api.problems import Problem
from admin_api.resources import cluster_place

PLACE = cluster_place("http://plane", "c")
SAID = {
    "resource_type": "CLUSTER",
    "resource_name": "kafka-cluster",
    "pattern_type": "LITERAL",
    "principal": "User:a",
    "host": "*",
    "operation": "DESCRIBE",
    "permission": "DENY",
}


def test_an_acl_comes_back_as_it_was_said():
    found = render(PLACE, "c", CreateAcl.model_validate(SAID).binding()).model_dump()
    own = urlsplit(found.pop("metadata")["self"])
    assert own.path == "/v3/clusters/c/acls"
    assert {name: value for name, [value] in parse_qs(own.query).items()} == SAID
    assert found == SAID | {"kind": "KafkaAcl", "cluster_id": "c"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resource_type", "ANY"),
        ("pattern_type", "ANY"),
        ("pattern_type", "MATCH"),
        ("operation", "ANY"),
        ("permission", "ANY"),
    ],
)
def test_what_only_a_filter_may_say_makes_no_acl(field, value):
    with pytest.raises(Problem, match=field) as caught:
        CreateAcl.model_validate(SAID | {field: value}).binding()
    assert caught.value.status == 400


def test_a_filter_that_says_nothing_matches_any():
    found = AclQuery().filter()
    assert (found.name, found.principal, found.host) == (None, None, None)
    words = (found.restype, found.operation, found.permission_type)
    assert {one.name for one in words} == {"ANY"}


def test_what_is_deleted_has_to_be_said():
    required = {n for n, f in AclDeletion.model_fields.items() if f.is_required()}
    assert required == {"resource_type", "pattern_type", "operation", "permission"}
