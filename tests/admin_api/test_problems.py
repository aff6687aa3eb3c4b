"""Every error has the one shape."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from admin_api.problems import Problem, of_kafka, of_silence, problem_of
from broker.catalog.errors import CatalogMissing
from lakehouse.errors import HistoryTooLong, LogDamaged, TableMissing


@pytest.mark.parametrize(
    ("code", "error_code", "status"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, 40403, 404),
        (KafkaError.TOPIC_ALREADY_EXISTS, 40002, 400),
        (KafkaError.INVALID_CONFIG, 40002, 400),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 40301, 403),
        (KafkaError._TRANSPORT, 50302, 503),
        (KafkaError._NOENT, 50302, 503),
        (KafkaError.UNKNOWN, 50002, 500),
    ],
)
def test_a_kafka_error_becomes_the_problem_that_stands_for_it(code, error_code, status):
    problem = of_kafka(KafkaError(code, "why"))
    assert (problem.error_code, problem.status) == (error_code, status)
    assert problem.message == "why"


@pytest.mark.parametrize(
    ("error", "error_code"),
    [
        (TableMissing("no table"), 40405),
        (HistoryTooLong("too many"), 42200),
        (LogDamaged("a hole"), 40900),
        (CatalogMissing("none"), 50302),
    ],
)
def test_what_a_table_or_the_catalog_cannot_give_is_said_in_its_words(
    error, error_code
):
    problem = problem_of(error)
    assert (problem.error_code, problem.message) == (error_code, str(error))


def test_a_plain_http_status_is_its_own_code():
    assert Problem(405, "no").status == 405


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("PUT", "/livez", 405), ("GET", "/v3/topics", 404)],
)
def test_paths_and_methods_that_are_not_there(lonely, method, path, status):
    answer = lonely.ask(method, path)
    assert answer.status_code == answer.json()["error_code"] == status
    assert answer.json().keys() == {"error_code", "message"}


def test_a_method_that_is_not_there_is_answered_with_those_that_are(lonely):
    assert lonely.ask("PUT", "/livez").headers["allow"] == "GET"


@pytest.mark.parametrize("said", ["application/x-www-form-urlencoded", "text/plain"])
def test_json_that_is_not_said_to_be_json_is_a_415(plane, said):
    """As `curl -d` says it if nothing else is asked for."""
    url, body = (
        f"{plane.cluster}/topics",
        '{"topic_name": "said", "validate_only": true}',
    )
    answer = plane.ask("POST", url, content=body, headers={"content-type": said})
    assert answer.status_code == answer.json()["error_code"] == 415
    assert "Content-Type: application/json" in answer.json()["message"]
    for known in ("application/json; charset=utf-8", "application/x.y+json"):
        headers = {"content-type": known}
        assert plane.ask("POST", url, content=body, headers=headers).is_success
    answer = plane.ask("POST", url, content="[]", headers={"content-type": known})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("refused", "The broker at h:9 does not answer: refused"),
        ("The broker at h:9 did not answer in 1 s.",) * 2,
    ],
)
def test_a_broker_that_is_silent_is_named(said, message):
    error = KafkaException(KafkaError(KafkaError._TRANSPORT, said))
    problem = of_silence(error, "h:9")
    assert (problem.error_code, problem.message) == (50302, message)


@pytest.mark.parametrize(
    "error",
    [KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)), ValueError("x")],
)
def test_who_answers_is_not_silent(error):
    assert of_silence(error, "h:9") is None
