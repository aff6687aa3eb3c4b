"""Errors in the Confluent REST v3 shape: ``{"error_code": 40403, "message": "..."}``.

The first three digits of the code are the HTTP status. A Kafka error becomes the
problem that Confluent's own proxy answers for it.
"""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException


class Problem(Exception):
    """What a request cannot have, and why."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status: the leading digits of a five-digit code."""
        code = self.error_code
        return code // 100 if code > 999 else code


OF_KAFKA: dict[int, int] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: 40403,
    KafkaError.TOPIC_ALREADY_EXISTS: 40002,
    KafkaError.TOPIC_EXCEPTION: 40002,
    KafkaError.INVALID_PARTITIONS: 40002,
    KafkaError.INVALID_REPLICATION_FACTOR: 40002,
    KafkaError.INVALID_REPLICA_ASSIGNMENT: 40002,
    KafkaError.INVALID_CONFIG: 40002,
    KafkaError.INVALID_REQUEST: 40002,
    KafkaError.POLICY_VIOLATION: 40002,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: 40301,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: 40301,
    KafkaError.REQUEST_TIMED_OUT: 50302,
    KafkaError._TIMED_OUT: 50302,
    KafkaError._TRANSPORT: 50302,
    KafkaError._ALL_BROKERS_DOWN: 50302,
}


def of_kafka(error: KafkaError) -> Problem:
    """The problem that stands for a Kafka error; 50002 for one without its own."""
    return Problem(OF_KAFKA.get(error.code(), 50002), error.str())


def _answer(problem: Problem) -> JSONResponse:
    body = {"error_code": problem.error_code, "message": problem.message}
    return JSONResponse(body, status_code=problem.status)


def _of_validation(error: RequestValidationError) -> Problem:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "body"
    return Problem(400, f"{where}: {first['msg']}")


def install(app: FastAPI) -> None:
    """Render every error of ``app`` in the one shape."""

    def renders(kind: type[Exception], convert: Callable[[Any], Problem]) -> None:
        async def handler(_request: Request, error: Exception) -> JSONResponse:
            return _answer(convert(error))

        app.add_exception_handler(kind, handler)

    renders(Problem, lambda error: error)
    renders(KafkaException, lambda error: of_kafka(error.args[0]))
    renders(RequestValidationError, _of_validation)
    renders(Exception, lambda _: Problem(500, "Internal Server Error"))
    renders(
        HTTPException,
        lambda e: Problem(e.status_code, f"HTTP {e.status_code} {e.detail}"),
    )
