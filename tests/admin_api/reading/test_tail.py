"""Following a topic: what comes is sent, and nothing is left when the client goes."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition

from admin_api.access.tokens import Role, Tokens
from admin_api.reading import tail
from admin_api.reading.filters import compile_filter
from admin_api.reading.progress import Progress
from broker.clock import SystemClock
from tests.admin_api.conftest import Plane
from tests.support.confluent import produce_all
from tests.support.patience import STUCK_S, wait_until
from tests.support.process import BrokerPart
from tests.support.server_sent import events


class Client:
    """A client of one stream, on the ASGI application itself."""

    def __init__(self, plane, path, query="", headers=()):
        self._plane = plane
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"plane"), *headers],
            "server": ("plane", 80),
        }
        self.status, self.headers = None, {}
        self._parts, self._goes = asyncio.Queue(), asyncio.Event()
        self._asked = False
        self.done = asyncio.ensure_future(
            plane.app(self._scope, self._receive, self._send)
        )

    async def part(self):
        """The next piece of the stream that is more than a heartbeat."""
        while True:
            found = await self._parts.get()
            if found and not found.startswith(b": nothing"):
                return found

    async def rest(self):
        """All that comes until the stream ends."""
        await self.done
        parts = [self._parts.get_nowait() for _ in range(self._parts.qsize())]
        return b"".join(parts)

    def leave(self):
        self._goes.set()

    async def _receive(self):
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._goes.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            self._parts.put_nowait(message.get("body", b""))


def told(story):
    asyncio.run(asyncio.wait_for(story, STUCK_S))


def produce(plane, topic, *values):
    produce_all(plane.bootstrap, topic, [(None, value, None, 0) for value in values])


def test_what_comes_is_sent_and_what_was_there_is_not(plane):
    plane.create("followed")
    produce(plane, "followed", b"old")

    async def story():
        client = Client(plane, "/v1/topics/followed/tail", "limit=3")
        assert await client.part() == b": following\n\n"
        assert client.status == 200
        assert client.headers[b"content-type"].startswith(b"text/event-stream")
        await asyncio.to_thread(produce, plane, "followed", b"a\nb", b"\xff")
        await asyncio.to_thread(produce, plane, "followed", b"last")
        *records, end = events(await client.rest())
        assert [(one[0], one[1]) for one in records] == [
            ("0:1", "record"),
            ("0:2", "record"),
            ("0:3", "record"),
        ]
        assert [one[2]["value"]["data"] for one in records] == ["a\nb", "/w==", "last"]
        assert end[1:] == ("end", {"ended_by": "RECORDS"})

    told(story())
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_a_client_that_goes_leaves_nothing_behind(plane):
    plane.create("left")

    async def story():
        clients = [Client(plane, "/v1/topics/left/tail") for _ in range(3)]
        for client in clients:
            await client.part()
        assert plane.app.state.readers.open == 3
        for client in clients:
            client.leave()
        for client in clients:
            await client.done

    told(story())
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_it_goes_on_where_one_was_and_filters(plane):
    plane.create("resumed")
    produce(plane, "resumed", b"a", b"b", b"a", b"b")

    async def story():
        query = "at=0:1&limit=2&filter=value%20%3D%3D%20%27b%27"
        found = events(await Client(plane, "/v1/topics/resumed/tail", query).rest())
        assert [one[0] for one in found] == ["0:1", "0:3", None]

    told(story())
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_its_time_ends_it(plane):
    plane.create("timed")

    async def story():
        client = Client(plane, "/v1/topics/timed/tail", "duration_s=0")
        assert events(await client.rest()) == [(None, "end", {"ended_by": "TIMEOUT"})]

    told(story())
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_all_end_when_the_plane_stops(plane):
    plane.create("stopped")
    readers = plane.app.state.readers

    async def story():
        client = Client(plane, "/v1/topics/stopped/tail")
        await client.part()
        readers.stopping.set()
        assert events(await client.rest()) == [(None, "end", {"ended_by": "STOP"})]

    try:
        told(story())
    finally:
        readers.stopping.clear()
    wait_until(lambda: readers.open == 0)


def test_too_many_clients_are_refused_with_429(plane, monkeypatch):
    plane.create("full")
    readers = plane.app.state.readers
    monkeypatch.setattr(readers, "_most", 1)

    async def story():
        first = Client(plane, "/v1/topics/full/tail")
        await first.part()
        second = Client(plane, "/v1/topics/full/tail")
        await second.done
        assert second.status == 429
        first.leave()
        await first.done

    told(story())
    wait_until(lambda: readers.open == 0)


def test_a_topic_that_goes_is_a_problem_in_the_stream(plane):
    url = plane.create("goes")
    produce(plane, "goes", b"v")

    async def story():
        client = Client(plane, "/v1/topics/goes/tail")
        await client.part()
        await asyncio.to_thread(plane.ask, "DELETE", url)
        [(_, name, said)] = events(await client.rest())
        assert (name, said["error_code"]) == ("problem", 40403)

    told(story())
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_a_topic_that_is_made_again_is_not_the_one_that_was_followed(plane):
    """Also where that went so fast that nobody saw that there was none."""
    url = plane.create("reborn")
    produce(plane, "reborn", b"old", b"old")

    def make_again():
        plane.ask("DELETE", url)
        plane.create("reborn")
        produce(plane, "reborn", b"passed", b"over", b"read")

    async def story():
        client = Client(plane, "/v1/topics/reborn/tail", "duration_s=30")
        await client.part()
        await asyncio.to_thread(make_again)
        *_, (_, name, said) = events(await client.rest())
        assert (name, said["error_code"]) == ("problem", 40403)
        assert "made again" in said["message"]

    told(story())
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_partitions_that_are_added_are_followed_within_seconds(plane):
    url = plane.create("widened")

    async def story():
        client = Client(plane, "/v1/topics/widened/tail", "limit=1")
        await client.part()
        body = {"partitions_count": 2}
        changed = await asyncio.to_thread(plane.ask, "PATCH", url, json=body)
        assert changed.status_code == 200
        record = (None, b"new", None, 1)
        await asyncio.to_thread(produce_all, plane.bootstrap, "widened", [record])
        (place, _, said), _ = events(await client.rest())
        assert (place, said["value"]["data"]) == ("1:0", "new")

    told(story())
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_a_token_that_is_revoked_ends_it(plane, request, monkeypatch):
    """Also while records come all the time."""
    monkeypatch.setattr(tail, "CHECK_MS", 200)
    plane.create("watched")
    guarded = request.getfixturevalue("guarded")
    viewer = [(b"authorization", guarded[Role.VIEWER]["authorization"].encode())]
    tokens = Tokens(plane.data_dir)
    [own] = [one.id for one in tokens.read().values() if one.role is Role.VIEWER]
    ended = threading.Event()

    def produce_on():
        while not ended.is_set():
            produce(plane, "watched", b"v")

    async def story():
        client = Client(plane, "/v1/topics/watched/tail", headers=viewer)
        await client.part()
        producing = asyncio.create_task(asyncio.to_thread(produce_on))
        while not (await client.part()).startswith(b"id:"):
            pass
        tokens.revoke(own)
        *_, (_, name, said) = events(await client.rest())
        assert (name, said["error_code"]) == ("problem", 40101)
        assert "revoked" in said["message"]
        ended.set()
        await producing

    try:
        told(story())
    finally:
        ended.set()
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_a_broker_that_dies_is_a_problem_in_the_stream(tmp_path):
    part = BrokerPart(tmp_path / "data")
    part.start()
    plane = Plane(part.bootstrap, part.data_dir)
    plane.create("orphaned")

    async def story():
        client = Client(plane, "/v1/topics/orphaned/tail")
        await client.part()
        plane.app.state.kafka.timeout_s = 0.5  # from now on nobody answers
        part.kill()
        [(_, name, said)] = events(await client.rest())
        assert (name, said["error_code"]) == ("problem", 50302)

    told(story())
    wait_until(lambda: plane.app.state.readers.open == 0)
    plane.close()


class Unreading(Client):
    """A client that takes the beginning, and nothing ever again."""

    async def _send(self, message):
        await super()._send(message)
        if message.get("body"):
            await asyncio.Event().wait()


@pytest.mark.parametrize("values", [[], [b"v"]])
def test_a_client_that_reads_nothing_holds_a_reader_no_longer(
    plane, monkeypatch, values
):
    monkeypatch.setattr(tail, "UNREAD_S", 0.0)
    name = f"unread-{len(values)}"
    plane.create(name)
    produce(plane, name, *values)

    async def story():
        client = Unreading(plane, f"/v1/topics/{name}/tail", "at=0:0&duration_s=1")
        await client.done

    told(story())
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_a_turn_holds_so_many_bytes_and_one_record_more(plane):
    plane.create("large")
    record_bytes = tail.TURN_BYTES * 5 // 8
    produce(plane, "large", *[bytes([65 + n]) * record_bytes for n in range(10)])
    consumer = plane.app.state.readers._consumer([TopicPartition("large", 0, 0)])
    progress = Progress({0: 0}, SystemClock().monotonic_ms)
    turn, seen = tail._Turn(compile_filter(""), tail.TURN_RECORDS, progress), 0
    try:
        while seen < 10:
            found = turn.take(consumer, threading.Event())
            assert len(found) <= 2
            seen += len(found)
    finally:
        consumer.close()


def test_a_record_of_many_bytes_is_sent_in_pieces():
    record = b"data: " + bytes(3 * tail.TURN_BYTES) + b"\n\n"

    async def take(_turn):
        return [record]

    async def nothing():
        raise AssertionError

    async def pieces():
        reader = SimpleNamespace(run=take, stopping=threading.Event())
        limits = tail.TailLimits(1, 1_000)
        progress = Progress({}, lambda: 0)
        events = tail.follow(reader, limits, None, lambda: 0, nothing, progress)
        return [piece async for piece in events]

    first, *sent, _ = asyncio.run(pieces())
    assert first == tail.FOLLOWING
    assert b"".join(sent) == record
    assert max(map(len, sent)) <= tail.TURN_BYTES
