"""A parameter that nobody knows is refused below /v1, in words."""

import pytest


@pytest.fixture
def topic(plane):
    if plane.get(f"{plane.cluster}/topics/queried").status_code == 404:
        plane.create("queried")
    return "/v1/topics/queried"


@pytest.mark.parametrize("name", ["limits", "Limit", "limit%20", "token"])
def test_an_unknown_parameter_is_a_400_that_names_the_known_ones(plane, topic, name):
    answer = plane.get(f"{topic}/records?limit=1&{name}=1")
    assert (answer.status_code, answer.json()["error_code"]) == (400, 400)
    known = "at, bytes_max, filter, last, limit, offset, partition, timeout_ms"
    assert f"there are {known}, timestamp_ms" in answer.json()["message"]
    assert plane.get(f"{topic}/records?limit=1").status_code == 200


def test_where_there_are_none_that_is_said(plane):
    message = plane.get("/v1/health?deep=true").json()["message"]
    assert message == 'There is no parameter "deep" here; there are none at all.'


@pytest.mark.parametrize("query", ["?&", "?", ""])
def test_nothing_is_no_parameter(plane, query):
    assert plane.get(f"/v1/health{query}").status_code == 200


@pytest.mark.parametrize("name", ["%ED%A0%80", "%00", "x" * 5000])
def test_any_name_is_refused_in_a_short_sentence(plane, name):
    answer = plane.get(f"/v1/health?{name}=1")
    assert answer.status_code == 400
    assert len(answer.json()["message"]) < 300


def test_who_may_not_ask_hears_nothing_of_parameters(plane, guarded):
    assert guarded
    assert plane.get("/v1/health?deep=true").status_code == 401


def test_in_confluents_shape_they_are_ignored_as_confluent_does(plane):
    assert plane.get(f"{plane.cluster}/topics?deep=true").status_code == 200
