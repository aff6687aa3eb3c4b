"""A request that comes alone is started in one step, and nobody can tell.

The same script is played to two connections, of which one goes the long way always, and
has answers that are told as any other: what starts, in which order, and what is
answered must be the same.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.dispatch.context import Context
from broker.dispatch.pending import Pending, PendingBytes
from broker.dispatch.registry import serves
from broker.network.connection import Connection
from broker.network.hub import Hub
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ProtocolError
from broker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tests.support.serving import on_loop, serving, until
from tests.support.wire import frame_of

KINDS = ("bytes", "late", "now", "refused", "other", "other now", "rubbish")
"""Pipelined: answered in bytes, by a future, at once, or refused; and two that are not
pipelined."""


class Peer(asyncio.Transport):
    """Takes what is written, while it reads; and sends reads of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = bytearray()
        self.reading = True
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 9) if name == "peername" else default

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """Nothing is ever left in it."""

    def get_write_buffer_size(self) -> int:
        return 0

    def writelines(self, parts: Any) -> None:
        assert not self.closed
        for part in parts:
            self.taken += part

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


class Played:
    """A connection whose requests are answered by hand."""

    def __init__(self, hub: Hub, *, one_step: bool) -> None:
        self.peer = Peer()
        self.connection = Connection(hub)
        self.connection.connection_made(self.peer)
        self.one_step = one_step
        self.one_steps = 0
        receiver = self.connection._receiver
        only_frame = type(receiver).only_frame

        class Watched(type(receiver)):  # type: ignore[misc]
            def only_frame(_, *given: Any) -> memoryview | None:
                frame = only_frame(receiver, *given) if one_step else None
                self.one_steps += frame is not None
                return frame

            def __getattribute__(_, name: str) -> Any:
                if name == "only_frame":
                    return object.__getattribute__(_, name)
                return getattr(receiver, name)

        self.connection._receiver = Watched.__new__(Watched)
        self.started: list[str] = []
        self.open: list[tuple[str, Any]] = []

    async def read(self, data: bytes) -> None:
        while not self.peer.reading and not self.peer.closed and self.open:
            self.finish(0)
            await asyncio.sleep(0)
        if self.peer.closed:
            return
        buffer = self.connection.get_buffer(len(data))
        buffer[: len(data)] = data
        del buffer
        self.connection.buffer_updated(len(data))
        await asyncio.sleep(0)

    def finish(self, at: int) -> None:
        name, result = self.open.pop(at % len(self.open))
        self.started.append(f"finished {name}")
        if name.startswith("bytes"):
            answer = b"<%s>" % name.encode()
            (result.set_answer if self.one_step else result.set_result)(answer)
        elif name.startswith("late"):
            result.set_result(HeartbeatResponse(int(name.split()[-1])))
        elif name.startswith("refused"):
            result.set_exception(ProtocolError("no"))
        else:
            result.set_result(LeaveGroupResponse(int(name.split()[-1])))


def handlers(players: dict[str, Played]) -> list[Any]:
    def start(name: str) -> Any:
        who, _, name = name.partition(" ")
        played = players[who]
        played.started.append(name)
        if "now" in name:
            return None
        result: Any = asyncio.get_running_loop().create_future()
        if name.startswith(("bytes", "refused")):
            result = PendingBytes() if played.one_step else Pending()
        played.open.append((name, result))
        return result

    @serves(ApiKey.HEARTBEAT, versions=(0, 4), pipelined=True)
    def heartbeat(request: HeartbeatRequest, _: Context) -> Any:
        result = start(request.group_id)
        return HeartbeatResponse(7) if result is None else result

    @serves(ApiKey.LEAVE_GROUP, versions=(0, 5))
    def leave_group(request: LeaveGroupRequest, _: Context) -> Any:
        result = start(request.group_id)
        return LeaveGroupResponse(9) if result is None else result

    return [heartbeat, leave_group]


def frame(kind: str, number: int, who: str) -> bytes:
    name = f"{who} {kind} {number}"
    if kind.startswith("other"):
        return frame_of(LeaveGroupRequest(name), 0, number)
    whole = frame_of(HeartbeatRequest(name), 0, number)
    if kind == "rubbish":
        return whole[:4] + b"\0\x63" + whole[6:]
    return whole


async def play(script: list[Any], half: bool, player: Played, who: str) -> None:
    """Send and finish as the script says; then finish all."""
    number = 0
    for step in script:
        if isinstance(step, int):
            if player.open:
                player.finish(step)
                await asyncio.sleep(0)
            continue
        data = b""
        for kind in step:
            number += 1
            data += frame(kind, number, who)
        if half and len(step) > 1:
            await player.read(data[: len(data) - 9])
            data = data[-9:]
        await player.read(data)
    for _ in range(200):
        while player.open:
            player.finish(0)
        await asyncio.sleep(0)


@pytest.mark.parametrize("limits", [{}, {"pipeline_max": 2, "inflight_bytes_max": 90}])
@settings(max_examples=150, deadline=None)
@given(
    script=st.lists(
        st.one_of(
            st.lists(st.sampled_from(KINDS), min_size=1, max_size=1),
            st.lists(st.sampled_from(KINDS), min_size=2, max_size=3),
            st.integers(0, 9),
        ),
        max_size=25,
    ),
    half=st.booleans(),
)
def test_both_ways_start_and_answer_the_same(
    limits: dict[str, int], script: list[Any], half: bool
) -> None:
    async def story() -> None:
        players: dict[str, Played] = {}
        async with serving(handlers(players), **limits) as server:
            for who, one_step in (("1", True), ("2", False)):
                players[who] = Played(server.hub, one_step=one_step)
                await play(script, half, players[who], who)
                assert server.hub.answering.taken == server.hub.producing.taken == 0
            quick, long = players["1"], players["2"]
            assert quick.started == long.started
            assert quick.peer.taken == long.peer.taken
            assert quick.peer.closed == long.peer.closed
            assert not long.one_steps
            for player in players.values():
                player.connection.connection_lost(None)

    on_loop(story)


def test_what_comes_alone_goes_the_short_way() -> None:
    async def story() -> None:
        players: dict[str, Played] = {}
        async with serving(handlers(players)) as server:
            player = players["1"] = Played(server.hub, one_step=True)
            await play(
                [["bytes"], ["bytes"], ["late"], ["bytes"], 0], False, player, "1"
            )
            assert player.one_steps == 4
            await play([["other"], ["bytes"]], False, player, "1")
            assert player.one_steps == 5  # the last one had to wait
            player.connection.connection_lost(None)

    on_loop(story)


@pytest.mark.parametrize("one_step", [True, False])
def test_a_connection_with_enough_open_reads_no_more(one_step: bool) -> None:
    async def story() -> None:
        players: dict[str, Played] = {}
        async with serving(handlers(players), pipeline_max=2) as server:
            player = players["1"] = Played(server.hub, one_step=one_step)
            await player.read(frame("bytes", 1, "1"))
            assert player.peer.reading
            await player.read(frame("bytes", 2, "1"))
            assert not player.peer.reading
            await asyncio.sleep(0)
            assert not player.peer.reading
            player.finish(0)
            await asyncio.sleep(0)
            assert player.peer.reading
            player.finish(0)
            player.connection.connection_lost(None)

    on_loop(story)


@pytest.mark.parametrize("one_step", [True, False])
def test_when_requests_hold_all_memory_nobody_starts_more(one_step: bool) -> None:
    async def story() -> None:
        players: dict[str, Played] = {}
        async with serving(handlers(players), inflight_bytes_max=30) as server:
            for who in ("1", "2"):
                players[who] = Played(server.hub, one_step=one_step)
            first, second = players["1"], players["2"]
            await first.read(frame("bytes", 1, "1"))
            await second.read(frame("bytes", 1, "2"))
            assert not second.peer.reading
            assert not second.started
            first.finish(0)
            await until(lambda: bool(second.started))
            assert second.started == ["bytes 1"]
            second.finish(0)
            for player in players.values():
                player.connection.connection_lost(None)

    on_loop(story)


def test_an_answer_that_no_other_can_join_takes_no_turn_of_its_own() -> None:
    async def story() -> None:
        players: dict[str, Played] = {}
        async with serving(handlers(players)) as server:
            player = players["1"] = Played(server.hub, one_step=True)
            await player.read(frame("other", 1, "1"))
            player.finish(0)
            await asyncio.sleep(0)  # whoever waits for a future is called
            assert player.peer.taken
            player.connection.connection_lost(None)

    on_loop(story)
