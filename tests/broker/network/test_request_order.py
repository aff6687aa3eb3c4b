"""Requests of one connection take effect one after another, and produces beside."""

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from tests.support.serving import on_loop, serving, until
from tests.support.wire import Wire, frame_of


class Handlers:
    """A pipelined handler and another one; answers are given by hand.

    ``started`` are the names of requests whose handler ran, in order; those whose name
    begins with "now" are answered at once.
    """

    def __init__(self) -> None:
        self.started: list[str] = []
        self.open: dict[str, asyncio.Future[Any]] = {}

        @serves(ApiKey.HEARTBEAT, versions=(0, 4), pipelined=True)
        def heartbeat(request: HeartbeatRequest, _: Context) -> Any:
            return self._start(request.group_id, HeartbeatResponse())

        @serves(ApiKey.LEAVE_GROUP, versions=(0, 5))
        def leave_group(request: LeaveGroupRequest, _: Context) -> Any:
            return self._start(request.group_id, LeaveGroupResponse())

        self.all = [heartbeat, leave_group]

    def _start(self, name: str, response: Any) -> Any:
        self.started.append(name)
        if name.startswith("now"):
            return response
        future = asyncio.get_running_loop().create_future()
        future.response = response  # type: ignore[attr-defined]
        self.open[name] = future
        return future

    def finish(self, name: str) -> None:
        future = self.open.pop(name)
        future.set_result(future.response)  # type: ignore[attr-defined]


def pipelined(name: str, correlation_id: int = 1) -> bytes:
    return frame_of(HeartbeatRequest(name), 0, correlation_id)


def other(name: str, correlation_id: int = 1) -> bytes:
    return frame_of(LeaveGroupRequest(name), 0, correlation_id)


async def awaited(later: Any) -> Any:
    return await later


async def stays(handlers: Handlers, *names: str) -> None:
    """These have started and no more do."""
    await until(lambda: len(handlers.started) >= len(names))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert handlers.started == list(names)


def test_a_request_starts_when_all_before_it_are_answered() -> None:
    async def story() -> None:
        handlers = Handlers()
        async with serving(handlers.all) as server:
            wire = await Wire.open(server.address)
            wire.send(other("a", 1), other("b", 2), other("now c", 3))
            await stays(handlers, "a")
            handlers.finish("a")
            await stays(handlers, "a", "b")
            handlers.finish("b")
            await stays(handlers, "a", "b", "now c")
            assert await wire.correlation_ids(3) == [1, 2, 3]

    on_loop(story)


def test_produces_are_open_together_and_hold_up_what_follows_them() -> None:
    async def story() -> None:
        handlers = Handlers()
        async with serving(handlers.all) as server:
            wire = await Wire.open(server.address)
            wire.send(pipelined("p"), pipelined("q"), other("a"), pipelined("r"))
            await stays(handlers, "p", "q")
            handlers.finish("q")
            await stays(handlers, "p", "q")
            handlers.finish("p")
            await stays(handlers, "p", "q", "a")
            handlers.finish("a")
            await stays(handlers, "p", "q", "a", "r")
            handlers.finish("r")
            await wire.correlation_ids(4)

    on_loop(story)


def test_a_write_of_an_old_version_holds_up_what_follows_and_weighs_as_one() -> None:
    async def story() -> None:
        handlers = Handlers()

        @serves(ApiKey.HEARTBEAT, versions=(0, 4), pipelined=True, pipelined_since=3)
        def heartbeat(request: HeartbeatRequest, _: Context) -> Any:
            return handlers._start(request.group_id, HeartbeatResponse())

        new, old = 3, 2
        async with serving([heartbeat]) as server:
            wire = await Wire.open(server.address)
            for number, (name, version) in enumerate(
                [("p", new), ("old", old), ("q", new), ("r", new)]
            ):
                wire.send(frame_of(HeartbeatRequest(name), version, number))
            await stays(handlers, "p", "old")
            assert server.hub.producing.taken > 0
            handlers.finish("p")
            await stays(handlers, "p", "old")
            handlers.finish("old")
            await stays(handlers, "p", "old", "q", "r")
            handlers.finish("q")
            handlers.finish("r")
            assert await wire.correlation_ids(4) == [0, 1, 2, 3]
            assert server.hub.producing.taken == server.hub.answering.taken == 0

    on_loop(story)


def test_a_write_that_returns_a_coroutine_holds_up_what_follows() -> None:
    async def story() -> None:
        handlers = Handlers()

        @serves(ApiKey.HEARTBEAT, versions=(0, 4), pipelined=True)
        def heartbeat(request: HeartbeatRequest, _: Context) -> Any:
            later = handlers._start(request.group_id, HeartbeatResponse())
            return awaited(later) if request.group_id == "later" else later

        async with serving([heartbeat]) as server:
            wire = await Wire.open(server.address)
            for number, name in enumerate(["p", "later", "q"]):
                wire.send(frame_of(HeartbeatRequest(name), 3, number))
            await stays(handlers, "p", "later")
            handlers.finish("p")
            await stays(handlers, "p", "later")
            handlers.finish("later")
            await stays(handlers, "p", "later", "q")
            handlers.finish("q")
            assert await wire.correlation_ids(3) == [0, 1, 2]
            assert server.hub.producing.taken == server.hub.answering.taken == 0

    on_loop(story)


def test_what_is_held_comes_in_pieces_and_in_any_size() -> None:
    async def story() -> None:
        handlers = Handlers()
        async with serving(handlers.all) as server:
            wire = await Wire.open(server.address)
            large = frame_of(HeartbeatRequest("now large"), 0, client_id="x" * 30_000)
            wire.send(other("a"))
            for _ in range(6):
                wire.send(large[:20_000])
                await asyncio.sleep(0.01)
                wire.send(large[20_000:])
            await stays(handlers, "a")
            handlers.finish("a")
            await wire.correlation_ids(7)
            assert handlers.started == ["a"] + ["now large"] * 6
            assert server.hub.receiving.taken == server.hub.producing.taken == 0

    on_loop(story)


def test_a_frame_larger_than_a_read_is_held_without_losing_its_place() -> None:
    async def story() -> None:
        handlers = Handlers()
        async with serving(handlers.all) as server:
            wire = await Wire.open(server.address)
            request = frame_of(LeaveGroupRequest("now b", "m" * 30_000), 0, 2)
            big = LeaveGroupRequest(
                "now big", members=[MemberIdentity("m" * 32_000)] * 9
            )
            wire.send(other("a", 1), *[request] * 5, frame_of(big, 3, 3))
            await stays(handlers, "a")
            handlers.finish("a")
            assert await wire.correlation_ids(7) == [1, 2, 2, 2, 2, 2, 3]

    on_loop(story)


def test_a_thousand_held_requests_start_one_by_one() -> None:
    async def story() -> None:
        handlers, count = Handlers(), 1_000
        async with serving(handlers.all) as server:
            wire = await Wire.open(server.address)
            wire.send(*[other(f"{i}", i) for i in range(count)])
            for i in range(count):
                await until(lambda i=i: f"{i}" in handlers.open)  # type: ignore[misc]
                assert list(handlers.open) == [f"{i}"]
                handlers.finish(f"{i}")
            assert await wire.correlation_ids(count) == list(range(count))

    on_loop(story)


def test_rubbish_behind_an_open_request_does_not_cost_it_its_answer() -> None:
    async def story() -> None:
        handlers = Handlers()
        async with serving(handlers.all) as server:
            for frame in (pipelined("p", 7), other("p", 7)):
                for bad in (b"\xff\xff\xff\xff", pipelined("q")[:-1] + b"\xff\xff\xff"):
                    wire = await Wire.open(server.address)
                    wire.send(frame, bad)
                    await until(lambda: "p" in handlers.open)
                    handlers.finish("p")
                    assert await wire.correlation_ids(1) == [7]
            version_unknown = bytearray(pipelined("q"))
            version_unknown[6:8] = b"\x00\x63"
            wire = await Wire.open(server.address)
            wire.send(pipelined("p", 7), version_unknown)
            await until(lambda: "p" in handlers.open)
            await until(lambda: server.hub.counters.protocol_errors > 0)
            handlers.finish("p")
            assert await wire.correlation_ids(1) == [7]
            assert await wire.closed()

    on_loop(story)


@settings(max_examples=40, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(["p", "o", "now p", "now o"]), max_size=30),
    cuts=st.lists(st.integers(1, 120), min_size=1, max_size=20),
    seed=st.integers(0, 1 << 32),
)
def test_any_mixture_takes_effect_and_is_answered_in_order(
    kinds: list[str], cuts: list[int], seed: int
) -> None:
    async def story() -> None:
        turns = random.Random(seed)  # how often it is asked depends on the machine
        handlers = Handlers()
        names = [f"{kind} {i}" for i, kind in enumerate(kinds)]
        make = {"p": pipelined, "o": other}
        frames = [
            make[kind[-1]](name, i)
            for i, (kind, name) in enumerate(zip(kinds, names, strict=True))
        ]
        async with serving(handlers.all, pipeline_max=5) as server:
            wire = await Wire.open(server.address)
            stream, at = b"".join(frames), 0
            while at < len(stream) or len(handlers.started) < len(names):
                size = turns.choice(cuts)
                wire.send(stream[at : at + size])
                at += size
                await asyncio.sleep(0.001)
                open_kinds = {name[0] for name in handlers.open}
                assert open_kinds <= {"p"} or len(handlers.open) == 1
                if handlers.open and turns.random() < 0.7:
                    handlers.finish(turns.choice(sorted(handlers.open)))
            while handlers.open:
                handlers.finish(turns.choice(sorted(handlers.open)))
            assert await wire.correlation_ids(len(names)) == list(range(len(names)))
            assert handlers.started == names
            assert server.hub.producing.taken == server.hub.receiving.taken == 0

    on_loop(story)
