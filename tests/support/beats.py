"""Heartbeats that a test answers by hand: requests whose order can be seen."""

import asyncio
from typing import Any

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.wire import frame_of

PING = ApiVersionsRequest("tests", "1")


class Beats:
    """A pipelined Heartbeat handler whose answers are given by hand."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.open: dict[str, asyncio.Future[Any]] = {}
        self.came = asyncio.Event()

        @serves(ApiKey.HEARTBEAT, versions=(0, 4), pipelined=True)
        def heartbeat(request: HeartbeatRequest, _: Context) -> Any:
            self.started.append(request.group_id)
            self.came.set()
            if request.group_id == "at once":
                return HeartbeatResponse()
            if request.group_id == "nothing":
                return None
            if request.group_id == "broken":
                raise ZeroDivisionError
            if request.group_id == "coroutine":
                return self._later()
            future = asyncio.get_running_loop().create_future()
            self.open[request.group_id] = future
            return future

        self.handler = heartbeat

    async def _later(self) -> HeartbeatResponse:
        await asyncio.sleep(0.01)
        return HeartbeatResponse()

    async def until(self, count: int) -> None:
        while len(self.started) < count:
            self.came.clear()
            await self.came.wait()


def beat(name: str, correlation_id: int) -> bytes:
    return frame_of(HeartbeatRequest(name), 0, correlation_id)
