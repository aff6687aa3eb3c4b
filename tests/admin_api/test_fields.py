"""The OpenAPI document is the manual: nothing in it is without a sentence and an
example, each example fits its schema, and what it shows can be sent just so."""

import jsonschema_rs
import pytest

from admin_api.fields import GROUP, TOPIC, shown_as
from admin_api.lake import Lake
from tests.support.confluent import produce_all
from tests.support.tables import Writer

METHODS = ("get", "put", "post", "patch", "delete")
TAKEN = (200, 201, 202, 204, 207)
REFUSED = {
    "search_acls": 400,
    "create_acl": 400,
    "create_acls": 400,
    "delete_acls": 400,
    "alter_cluster_configs": 400,
    "update_cluster_config": 400,
    "reset_cluster_config": 400,
    "get_cluster_config": 404,
    "get_reassignment": 404,
    "get_consumer": 404,
    "list_assignments": 404,
    "get_assignment": 404,
    "get_lag_history": 404,
}
"""What a broker without an authorizer, without others beside it and with a group that
has no member answers to what is written as it should be."""


@pytest.fixture(scope="module")
def document(plane):
    return plane.get("/openapi.json").json()


def operations(document):
    """(method, path, operation); what deletes comes last, the topic behind its own."""
    found = [
        (method, path, item[method])
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]
    return sorted(found, key=lambda one: (one[0] == "delete", -len(one[1]), one[0]))


def parameters(document):
    return [
        (f"{method} {path} {parameter['name']}", parameter)
        for method, path, operation in operations(document)
        for parameter in operation.get("parameters", ())
    ]


def properties(document):
    return [
        (f"{name}.{field}", schema)
        for name, shape in document["components"]["schemas"].items()
        for field, schema in shape.get("properties", {}).items()
    ]


def bodies(document):
    """(operation, what it takes) of those that have a body."""
    return [
        (operation, operation["requestBody"]["content"]["application/json"]["schema"])
        for _, _, operation in operations(document)
        if "requestBody" in operation
    ]


def kinds(schema):
    """The types that a value may have; "shape" stands for a schema with a name."""
    found = set()
    for one in schema.get("anyOf", [schema]):
        inner = one.get("items", one)
        found |= {"shape" if "$ref" in inner else inner.get("type", "any")}
    return found - {"null"}


def needs_example(schema):
    """A shape's fields have theirs, a boolean is one of two, and a default is one."""
    return schema.get("default") is None and not kinds(schema) <= {"shape", "boolean"}


def examples_of(schema, document):
    """Of a schema, or of the shape that it refers to."""
    own = schema.get("examples", [])
    if own or "$ref" not in schema:
        return own
    name = schema["$ref"].rpartition("/")[2]
    return document["components"]["schemas"][name].get("examples", [])


def misfits(schema, document):
    """The examples that are not what the schema says."""
    validator = jsonschema_rs.Draft202012Validator(
        schema | {"components": document["components"]}
    )
    found = examples_of(schema, document)
    return [one for one in found if not validator.is_valid(one)]


def is_sentence(text):
    return len(text) > 5 and text.rstrip().endswith((".", "?"))


def test_every_parameter_has_a_sentence_and_an_example(document):
    found = parameters(document)
    assert len(found) > 150
    assert [
        where
        for where, one in found
        if not is_sentence(one.get("description", "")) or not one["schema"]["examples"]
    ] == []


def test_every_shape_and_every_field_has_a_sentence_and_an_example(document):
    shapes = document["components"]["schemas"]
    found = properties(document)
    assert len(shapes) > 100
    assert len(found) > 450
    assert [n for n, one in shapes.items() if "description" not in one] == []
    assert [
        where for where, one in found if not is_sentence(one.get("description", ""))
    ] == []
    assert [
        where for where, one in found if needs_example(one) and "examples" not in one
    ] == []


def test_every_body_has_a_whole_example(document):
    found = bodies(document)
    assert len(found) > 14
    assert [
        operation["operationId"]
        for operation, schema in found
        if not examples_of(schema, document)
    ] == []


def test_every_example_fits_its_schema(document):
    shapes = document["components"]["schemas"].items()
    places = [
        *((where, one["schema"]) for where, one in parameters(document)),
        *properties(document),
        *shapes,
        *((operation["operationId"], schema) for operation, schema in bodies(document)),
    ]
    wrong = {where: misfits(schema, document) for where, schema in places}
    assert {where: found for where, found in wrong.items() if found} == {}


@pytest.fixture(scope="module")
def cluster_id(plane):
    """Of a broker that has what the examples name, and a compactor was asked for."""
    plane.create(TOPIC, partitions=2)
    records = [(None, b"v", None, part) for part in (0, 1) for _ in range(20)]
    produce_all(plane.bootstrap, TOPIC, records)
    topic = Lake(plane.data_dir).topic(TOPIC)
    writer = Writer(str(plane.data_dir / "tables"), TOPIC, topic.id.hex())
    writer.add(0, 0, 1)
    reset = {"topics": [{"topic_name": TOPIC}], "to": "EARLIEST", "dry_run": False}
    assert plane.post(f"/v1/groups/{GROUP}:reset-offsets", reset).status_code == 200
    assert plane.post(f"/v1/tables/{TOPIC}:compact?timeout=0", None).status_code == 202
    return plane.get("/v3/clusters").json()["data"][0]["cluster_id"]


def sent(plane, method, path, operation, document, cluster_id):
    """The answers to an operation's examples: alone, each parameter, each body."""
    known = {
        one["name"]: one["schema"]["examples"][0]
        for one in operation.get("parameters", ())
        if one["in"] == "path"
    } | {"cluster_id": cluster_id}
    queries = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
    needed = {
        one["name"]: one["schema"]["examples"][0] for one in queries if one["required"]
    }
    if operation["operationId"] == "tail_records":
        needed["duration_s"] = 0
    if operation["operationId"] == "find_version":
        needed = {"partition": 0, "offset": 0}
    url = path.format(**known)
    answers = [
        plane.ask(
            method, url, params=needed | {one["name"]: one["schema"]["examples"][0]}
        )
        for one in queries
        if method == "get" and one["name"] not in ("version", "page_token")
    ]
    schema = operation.get("requestBody", {}).get("content", {})
    if not schema:
        return [*answers, plane.ask(method, url, params=needed)]
    found = examples_of(schema["application/json"]["schema"], document)
    return [*answers, *(plane.ask(method, url, json=one) for one in found)]


def is_right(answer, name):
    wanted = (REFUSED[name],) if name in REFUSED else TAKEN
    return answer.status_code in wanted and '"failures":[{' not in answer.text


def test_what_the_document_shows_can_be_sent(plane, document, cluster_id):
    asked = operations(document)
    answers = [
        (operation["operationId"], answer)
        for method, path, operation in asked
        for answer in sent(plane, method, path, operation, document, cluster_id)
    ]
    assert [
        (name, str(one.url), one.status_code, one.text[:200])
        for name, one in answers
        if not is_right(one, name)
    ] == []
    assert REFUSED.keys() <= {operation["operationId"] for _, _, operation in asked}
    assert len(answers) > 100


def test_a_body_shows_what_may_be_sent_just_so():
    assert shown_as({"a": 1}, {"b": 2}) == {
        "json_schema_extra": {"examples": [{"a": 1}, {"b": 2}]}
    }
