"""Integers are what the OpenAPI document calls so."""

from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from admin_api.app import create_app
from admin_api.integers import DIGITS, NUMBER
from admin_api.resources import Body
from broker.settings import Settings

WRONG = (True, False, " 1 ", "1_0", "", 1.5)
JSON, URL = TypeAdapter(Annotated[int, NUMBER]), TypeAdapter(Annotated[int, DIGITS])


@pytest.mark.parametrize(("said", "expected"), [(0, 0), (-7, -7), (3.0, 3), ("3", 3)])
def test_a_number_of_json_without_a_fraction_or_its_digits_is_an_integer(
    said, expected
):
    assert JSON.validate_python(said) == expected


@pytest.mark.parametrize("said", WRONG)
def test_nothing_else_of_json_is_one(said):
    with pytest.raises(ValidationError, match="should be a valid integer"):
        JSON.validate_python(said)


@pytest.mark.parametrize(("said", "expected"), [("0", 0), ("-7", -7), ("10", 10)])
def test_digits_of_a_url_are_an_integer(said, expected):
    assert URL.validate_python(said) == expected


@pytest.mark.parametrize(
    "said", ["1_0", "+1", " 1", "1\n", "1.0", "", "-", "1e2", "\u0661"]
)
def test_nothing_else_of_a_url_is_one(said):
    with pytest.raises(ValidationError, match="should be a valid integer"):
        URL.validate_python(said)


def bodies(kind=Body):
    for one in kind.__subclasses__():
        yield from (one, *bodies(one))


def kinds(schema):
    """What a shape of the document may be, null aside."""
    for one in schema.get("anyOf", [schema]):
        yield one.get("items", one).get("type"), "items" in one


def integers_of(body):
    """(field, whether it has many) of a body's integers."""
    for name, schema in body.model_json_schema().get("properties", {}).items():
        for kind, are_many in kinds(schema):
            if kind == "integer":
                yield name, are_many


def test_no_integer_of_a_body_is_anything_else():
    create_app("127.0.0.1:1", Settings())  # loads them all
    wanted = [(one, *found) for one in bodies() for found in integers_of(one)]
    assert len(wanted) > 8
    for body, name, are_many in wanted:
        for said in WRONG:
            with pytest.raises(ValidationError) as caught:
                body.model_validate({name: [said] if are_many else said})
            why = {one["loc"][0]: one["msg"] for one in caught.value.errors()}
            assert "valid integer" in why.get(name, ""), (body, name, said)


def integers_asked(document):
    """(method, path, place, name) of each integer in a path or a query."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for one in operation.get("parameters", ()):
                if "integer" in [kind for kind, _ in kinds(one["schema"])]:
                    yield method, path, one["in"], one["name"]


def test_no_integer_of_a_url_is_anything_but_digits(plane):
    plane.create("t")
    cluster = plane.cluster.rpartition("/")[2]
    known = {"cluster_id": cluster, "topic_name": "t", "broker_id": "1"}
    document = plane.get("/openapi.json").json()
    wanted = [
        one
        for one in integers_asked(document)
        if "/consumer-groups/{" not in one[1]  # asked for the group first
    ]
    assert len(wanted) > 30
    for method, path, place, name in wanted:
        full = path.format_map(Numbers(known | {name: "1_0"}))
        more = {"params": {name: "1_0"}} if place == "query" else {}
        answer = plane.ask(method, full, json={}, **more)
        assert answer.status_code == 400, (method, path, name, answer.text)
        assert "valid integer" in answer.json()["message"]


class Numbers(dict):
    """A number for each parameter that is not known; 0 is a partition of a topic."""

    def __missing__(self, _):
        return "0"
