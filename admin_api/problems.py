"""Errors in the Confluent REST v3 shape: ``{"error_code": 40403, "message": "..."}``.

The first three digits of the code are the HTTP status. A Kafka error becomes the
problem that Confluent's own proxy answers for it (``KafkaExceptionMapper``).
"""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from admin_api.access.callers import Refused
from admin_api.fields import (
    ErrorCodeField,
    MessageField,
)
from admin_api.reading.filter_tokens import FilterError
from admin_api.resources import printable
from broker.catalog.errors import CatalogError
from broker.protocol.errors import KafkaError as BrokerError
from lakehouse.errors import HistoryTooLong, LakehouseError, TableMissing


class Problem(Exception):
    """What a request cannot have, and why."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        # what it quotes may be no text that an answer can have
        self.message = message.encode(errors="backslashreplace").decode()

    @property
    def status(self) -> int:
        """The HTTP status: the leading digits of a five-digit code."""
        code = self.error_code
        return code // 100 if code > 999 else code


class ErrorBody(BaseModel):
    """What went wrong; the first three digits of the code are the HTTP status."""

    error_code: ErrorCodeField
    message: MessageField


DOCUMENTED: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request cannot be served."},
    "5XX": {"model": ErrorBody, "description": "The broker did not or cannot answer."},
}
"""Of every operation of the v3 shape, for its OpenAPI document."""

_BAD_REQUEST = (
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_REPLICA_ASSIGNMENT,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_REQUEST,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.SECURITY_DISABLED,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._INVALID_ARG,
    KafkaError._UNSUPPORTED_FEATURE,
)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_RETRIABLE = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.KAFKA_STORAGE_ERROR,
)
_UNAVAILABLE = (
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._WAIT_COORD,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._NOENT,  # "No leaders found": none is up of those that were known
)
OF_KAFKA: dict[int, int] = {
    **dict.fromkeys(_BAD_REQUEST, 40002),
    **dict.fromkeys(_FORBIDDEN, 40301),
    **dict.fromkeys(_RETRIABLE, 50003),
    **dict.fromkeys(_UNAVAILABLE, 50302),
    KafkaError.SASL_AUTHENTICATION_FAILED: 40101,
    KafkaError._UNKNOWN_PARTITION: 40402,
    KafkaError.UNKNOWN_TOPIC_OR_PART: 40403,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: 40900,
    KafkaError._UNKNOWN_TOPIC: 40403,
    KafkaError.THROTTLING_QUOTA_EXCEEDED: 42901,
}


_SILENT = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._ALL_BROKERS_DOWN,
    }
)
"""What librdkafka says of a broker from which it heard nothing."""


def of_silence(error: Exception, bootstrap: str) -> Problem | None:
    """Which broker does not answer, and why; None for any other error."""
    said = error.args[0] if isinstance(error, KafkaException) else None
    if said is None or said.code() not in _SILENT:
        return None
    silence = f"The broker at {bootstrap} "
    words = said.str()
    if not words.startswith(silence):
        words = f"{silence}does not answer: {words}"
    return Problem(OF_KAFKA[said.code()], words)


def of_kafka(error: KafkaError) -> Problem:
    """The problem that stands for a Kafka error; 50002 for one without its own."""
    return Problem(OF_KAFKA.get(error.code(), 50002), error.str())


def of_broker_rule(error: BrokerError) -> Problem:
    """The problem that stands for one of the broker's rules, asked of ourselves."""
    return Problem(OF_KAFKA.get(int(error.code), 50002), str(error.message))


def of_validation(error: RequestValidationError | ValidationError) -> Problem:
    """The first thing that is wrong with a request, and where in it."""
    first = error.errors()[0]
    where = first["loc"]
    if isinstance(error, RequestValidationError):
        where = where[1:]  # without "body", "path" or "query"
    named = ".".join(str(part) for part in where) or "body"
    return Problem(400, f"{named}: {first['msg']}")


def of_media_type(request: Request, error: Exception) -> Problem | None:
    """415 for a body that is not said to be JSON, which is what is wrong with it then:
    `curl -d` says that it is a form."""
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said == "application/json" or said.endswith("+json"):
        return None
    if not isinstance(error, RequestValidationError):
        return None
    first = error.errors()[0]
    if first["loc"] != ("body",) or not isinstance(first.get("input"), bytes):
        return None
    return Problem(
        415, "HTTP 415 Unsupported Media Type: say Content-Type: application/json."
    )


_CONVERTERS: dict[type[Exception], Callable[[Any], Problem]] = {
    Problem: lambda error: error,
    KafkaException: lambda error: of_kafka(error.args[0]),
    BrokerError: of_broker_rule,
    FilterError: lambda error: Problem(400, f"filter: {error}"),
    TableMissing: lambda error: Problem(40405, str(error)),
    HistoryTooLong: lambda error: Problem(42200, str(error)),
    LakehouseError: lambda error: Problem(40900, str(error)),
    CatalogError: lambda error: Problem(50302, str(error)),
    RequestValidationError: of_validation,
    ValidationError: of_validation,
    Refused: lambda error: Problem(error.error_code, error.detail),
    HTTPException: lambda error: Problem(
        error.status_code, f"HTTP {error.status_code} {error.detail}"
    ),
    Exception: lambda _: Problem(500, "Internal Server Error"),
}


def problem_of(error: Exception) -> Problem:
    """The problem that stands for an exception; 500 for one that nobody expects."""
    kinds = (kind for kind in _CONVERTERS if isinstance(error, kind))
    return _CONVERTERS[next(kinds)](error)


_HEADERS = {401: {"www-authenticate": "Bearer"}, 408: {"connection": "close"}}
"""Of answers, by their status."""


def install(app: FastAPI) -> None:
    """Render every error of ``app`` in the one shape."""

    async def handler(request: Request, error: Exception) -> JSONResponse:
        bootstrap = getattr(request.app.state, "bootstrap", "")
        problem = (
            of_media_type(request, error)
            or of_silence(error, bootstrap)
            or problem_of(error)
        )
        message = printable(problem.message)
        body = {"error_code": problem.error_code, "message": message}
        headers = dict(getattr(error, "headers", None) or {})  # what is allowed here
        headers |= _HEADERS.get(problem.status, {})
        return JSONResponse(body, status_code=problem.status, headers=headers)

    for kind in _CONVERTERS:
        if kind is not ValidationError:  # in an answer it would be our own fault
            app.add_exception_handler(kind, handler)
