"""What the APIs of ACLs answer: there is no authorizer.

Source: ``AclApis`` of a Kafka without one; describing has another wording there, too.
"""

from typing import Protocol, TypeVar

from broker.protocol.errors import ErrorCode


class Refusable(Protocol):
    """A result, or a response as a whole."""

    error_code: int
    error_message: str | None


T = TypeVar("T", bound=Refusable)


def refused(result: T, message: str = "No Authorizer is configured.") -> T:
    """Return the result with SECURITY_DISABLED in it."""
    result.error_code = ErrorCode.SECURITY_DISABLED
    result.error_message = message
    return result
