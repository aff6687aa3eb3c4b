"""Resources are changed side by side, each with a result of its own."""

import asyncio

from broker.apis._alter_each import alter_each
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
)


def test_all_are_under_way_at_once_and_each_has_its_result() -> None:
    """None would end if each waited for the one before it."""
    names = ["a", "b", "refused", "a", "c"]
    changed: list[str] = []

    async def story() -> list[AlterConfigsResourceResponse]:
        all_there = asyncio.Barrier(3)

        async def change(resource: AlterConfigsResource) -> None:
            if resource.resource_name == "refused":
                raise KafkaError(ErrorCode.INVALID_CONFIG, "no")
            await all_there.wait()
            changed.append(resource.resource_name)

        resources = [AlterConfigsResource(2, name, []) for name in [*names, "d"]]
        return await alter_each(resources, AlterConfigsResourceResponse, change)

    results = asyncio.run(story())
    assert sorted(changed) == ["b", "c", "d"]
    assert [(one.resource_name, one.error_code) for one in results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", 0),
        ("refused", ErrorCode.INVALID_CONFIG),
        ("a", ErrorCode.INVALID_REQUEST),
        ("c", 0),
        ("d", 0),
    ]
    assert [one.error_message for one in results] == [
        "Each resource must appear at most once.",
        None,
        "no",
        "Each resource must appear at most once.",
        None,
        None,
    ]
