"""How the two APIs that change configurations go through what a request names.

All of it at the same time, so that the catalog commits the changes together: a thousand
topics cost a few transactions and not a thousand. Source: Kafka's
``ConfigurationControlManager``, which refuses what is named twice.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from broker.dispatch.turns import completed, counted_in_turns, side_by_side
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.topics.config_alter import Resource

R = TypeVar("R", bound=Resource)


class Result(Protocol):
    """How it went for one resource, in any of the responses."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


T = TypeVar("T", bound=Result)


async def alter_each(
    resources: Sequence[R],
    result_type: Callable[[], T],
    change: Callable[[R], Awaitable[object]],
) -> list[T]:
    """Change each resource by itself; a result for each time that one is named.

    A KafkaError of ``change``, or that a resource was named twice, goes into it.
    """
    times = await completed(counted_in_turns(_name(one) for one in resources))
    return await side_by_side(
        _alter(resource, _taken(times, _name(resource)), result_type(), change)
        for resource in resources
    )


def _name(resource: Resource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _taken(times: Counter[tuple[int, str]], name: tuple[int, str]) -> int:
    """How often it is named; one that is named once is forgotten with that."""
    return times.pop(name) if times[name] == 1 else times[name]


async def _alter(
    resource: R, times: int, result: T, change: Callable[[R], Awaitable[object]]
) -> T:
    result.resource_type = resource.resource_type
    result.resource_name = resource.resource_name
    result.error_message = None
    try:
        if times > 1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
            )
        await change(resource)
    except KafkaError as refused:
        result.error_code, result.error_message = refused.code, refused.message
    return result
