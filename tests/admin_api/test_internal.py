"""The internal endpoint, as the plane asks it: whole answers, and true ones."""

import asyncio
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from admin_api import internal, internal_http
from admin_api.internal import LATE, Absent, Internal, Unchanged
from admin_api.internal_http import PartConnection
from admin_api.problems import Problem
from broker.runtime.process import internal as parts
from broker.runtime.process.internal import InternalEndpoint, Question
from broker.runtime.process.internal_places import TcpPlace, UnixPlace
from broker.runtime.process.levels import Levels
from broker.settings import InternalSettings, Settings
from broker.status import secret
from broker.status.proof import SCHEME
from broker.status.unix_socket import short_path
from tests.support.patience import STUCK_S, wait_until
from tests.support.ports import nobody

OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def squatter(bound, *answers):
    """Somebody listens there: each of ``answers`` is given a connection after it was
    asked something; what was heard is in the list."""
    heard = []

    def serve():
        for answer in answers:
            asking, _ = bound.accept()
            with asking, suppress(OSError):
                heard.append(asking.recv(1 << 16))
                answer(asking)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield heard
    thread.join()


@contextmanager
def unix_squatter(data_dir, *answers):
    with socket.socket(socket.AF_UNIX) as bound:
        with short_path(data_dir / "run") as path:
            bound.bind(path)
        bound.listen()
        with squatter(bound, *answers) as heard:
            yield heard


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(internal, "TIMEOUT_S", STUCK_S)
    monkeypatch.setattr(parts, "TIMEOUT_S", STUCK_S)


@pytest.fixture
def data_dir(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path


def ask(data_dir):
    return asyncio.run(Internal(data_dir).rows("connections"))


def test_where_nobody_listens_the_reason_is_told(data_dir, tmp_path):
    for place in (data_dir, tmp_path / "nowhere"):
        with pytest.raises(Problem, match="does not answer") as problem:
            ask(place)
        assert problem.value.error_code == 50303


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"no HTTP\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nno JSON",
        b"HTTP/1.0 200 OK\r\n\r\n1\n",
        OK + b"7\r\nno JSON\r\n0\r\n\r\n",
        OK + b"1\r\n1\r\n0\r\n\r\n",
    ],
)
def test_nonsense_is_no_answer(data_dir, said):
    with unix_squatter(data_dir, lambda asking: asking.sendall(said)):
        with pytest.raises(Problem) as problem:
            ask(data_dir)
        assert problem.value.error_code == 50303


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.0 200 OK\r\n\r\n{}\n",
        b"HTTP/1.1 200 OK\r\n\r\n{}\n",
        OK + b"3\r\n{}\n\r\n",
        OK + b"3\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{}\n",
    ],
)
def test_an_answer_that_was_cut_is_none(data_dir, said):
    with unix_squatter(data_dir, lambda asking: asking.sendall(said)):
        with pytest.raises(Problem, match="not whole") as problem:
            ask(data_dir)
        assert problem.value.error_code == 50303


def test_one_that_says_a_byte_now_and_then_is_not_waited_for(data_dir, monkeypatch):
    monkeypatch.setattr(internal, "TIMEOUT_S", 0.3)
    ended = threading.Event()

    def trickle(asking):
        asking.sendall(OK)
        while not ended.wait(0.02):
            asking.sendall(b"1\r\n \r\n")

    with unix_squatter(data_dir, trickle):
        with pytest.raises(Problem, match="timed out"):
            ask(data_dir)
        ended.set()


def test_too_long_an_answer_is_none(data_dir, monkeypatch):
    monkeypatch.setattr(internal_http, "ANSWER_BYTES_MAX", 10)
    said = OK + b"b\r\n" + b" " * 11 + b"\r\n0\r\n\r\n"
    squatting = unix_squatter(data_dir, lambda asking: asking.sendall(said))
    with squatting, pytest.raises(Problem, match="more than 10 bytes"):
        ask(data_dir)


def test_one_that_says_nothing_is_waited_for_no_longer_than_its_time(
    data_dir, monkeypatch
):
    monkeypatch.setattr(internal, "TIMEOUT_S", 0.05)
    with socket.socket(socket.AF_UNIX) as server:
        with short_path(data_dir / "run") as path:
            server.bind(path)
        server.listen()
        with pytest.raises(Problem, match="timed out"):
            ask(data_dir)


@pytest.fixture
def listening(data_dir):
    """A broker at an address: where, and the file of its secret."""
    with part_at_an_address(data_dir, "broker") as address:
        yield address, data_dir / "run" / secret.FILE


@contextmanager
def part_at_an_address(data_dir, name):
    endpoint = InternalEndpoint(
        TcpPlace(name, "127.0.0.1:0", data_dir / "run"),
        {"connections": Question(lambda: iter([{"n": 1}]))},
        Levels("info"),
        lambda asked: asked(),
    )
    endpoint.start()
    yield "{}:{}".format(*endpoint.address)
    endpoint.close()


def test_at_an_address_the_secret_is_proved(listening, data_dir, tmp_path):
    address, file = listening
    with part_at_an_address(data_dir, "compactor") as other:
        own = InternalSettings(broker=address, compactor=other)
        settings = Settings(data_dir=data_dir, internal=own)
        rows = asyncio.run(Internal.of_broker(settings).rows("connections"))
        assert rows == [{"n": 1}]
        compactor = Internal.of_compactor(settings)
        assert asyncio.run(compactor.change_level("lakelog", "debug"))
        assert not asyncio.run(compactor.change_level("nobody", "debug"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(file.read_bytes())
    own = InternalSettings(broker=address, secret=elsewhere)
    settings = Settings(data_dir=tmp_path / "no" / "such", internal=own)
    assert asyncio.run(Internal.of_broker(settings).rows("connections")) == rows


@pytest.mark.parametrize("content", ["x" * 40, "short"])
def test_without_the_right_secret_the_reason_is_told_and_no_secret(
    listening, tmp_path, content
):
    address, file = listening
    (tmp_path / "other").write_text(content)
    own = InternalSettings(broker=address, secret=tmp_path / "other")
    with pytest.raises(Problem) as problem:
        asyncio.run(Internal.of_broker(Settings(internal=own)).rows("connections"))
    assert problem.value.error_code == 50303
    assert content not in str(problem.value)
    assert secret.read(file) not in str(problem.value)


def test_a_part_is_not_taken_for_the_other(listening, data_dir):
    address, _ = listening
    settings = Settings(data_dir=data_dir, internal=InternalSettings(compactor=address))
    with pytest.raises(Problem, match="another part"):
        asyncio.run(Internal.of_compactor(settings).rows("connections"))


def ask_at(data_dir, bound):
    own = InternalSettings(broker="{}:{}".format(*bound.getsockname()))
    settings = Settings(data_dir=data_dir, internal=own)
    return asyncio.run(Internal.of_broker(settings).rows("connections"))


@pytest.fixture
def bound(data_dir):
    """The address of a part that is away; the secret is there."""
    (data_dir / "run" / secret.FILE).write_text("s" * 64)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        yield bound


CHALLENGE = (
    "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n"
    f"WWW-Authenticate: {SCHEME} {'0' * 32}\r\n\r\n"
).encode()
ROW = b"3\r\n{}\n\r\n0\r\n"


@pytest.mark.parametrize("sealed", [b"", b"Lakelog-Seal: " + b"0" * 64 + b"\r\n"])
def test_who_listens_in_the_place_of_a_part_learns_no_secret_and_is_not_believed(
    data_dir, bound, sealed
):
    second = []

    def answer(asking):
        asking.sendall(CHALLENGE)
        second.append(asking.recv(1 << 16))
        asking.sendall(OK + ROW + sealed + b"\r\n")

    squatting = squatter(bound, answer)
    with squatting as heard, pytest.raises(Problem, match="does not prove"):
        ask_at(data_dir, bound)
    assert b"Authorization" not in heard[0]
    assert b"Authorization: Lakelog-HMAC-SHA256 " in second[0]
    assert b"s" * 64 not in second[0]


@pytest.mark.parametrize(
    "said",
    [
        OK + ROW + b"\r\n",
        CHALLENGE.replace(b"401", b"200"),
        CHALLENGE.replace(b"0" * 32, b"some"),
        CHALLENGE.replace(b"WWW-", b"No-"),
    ],
)
def test_who_asks_for_no_proof_is_not_believed(data_dir, bound, said):
    squatting = squatter(bound, lambda asking: asking.sendall(said))
    with squatting, pytest.raises(Problem, match="asks for no proof"):
        ask_at(data_dir, bound)


def leave(_asking):
    """As a part does that has no place for who did not prove anything yet."""


def test_whom_strangers_push_out_asks_again_a_few_times(data_dir, bound):
    squatting = squatter(bound, *[leave] * internal.TRIES)
    with squatting as heard, pytest.raises(Problem, match="closed without an answer"):
        ask_at(data_dir, bound)
    assert len(heard) == internal.TRIES


def between(address, change):
    """Serve a connection by passing on what both say, the part's words changed."""

    def answer(asking):
        host, port = address.split(":")
        with socket.create_connection((host, int(port))) as part:
            part.sendall(FIRST)
            asking.sendall(change(part.recv(1 << 16)))
            part.sendall(asking.recv(1 << 16))
            while said := part.recv(1 << 16):
                asking.sendall(change(said))

    return answer


FIRST = b"GET /connections HTTP/1.1\r\nHost: part\r\n\r\n"


def test_an_answer_that_was_changed_on_its_way_is_not_believed(listening, data_dir):
    address, _ = listening
    with socket.create_server(("127.0.0.1", 0)) as bound:
        answer = between(address, lambda said: said)
        with squatter(bound, leave, answer):
            assert ask_at(data_dir, bound) == [{"n": 1}]
        answer = between(address, lambda said: said.replace(b'"n"', b'"m"'))
        with squatter(bound, answer), pytest.raises(Problem, match="does not prove"):
            ask_at(data_dir, bound)


def test_a_part_does_not_run_where_nobody_listens_and_only_there(data_dir, tmp_path):
    (data_dir / "killed" / "run").mkdir(parents=True)
    with (
        socket.socket(socket.AF_UNIX) as bound,
        short_path(data_dir / "killed" / "run") as path,
    ):
        bound.bind(path)
    for place in (data_dir, tmp_path / "nowhere", data_dir / "killed"):
        with pytest.raises(Absent):
            ask(place)
    (data_dir / "run" / secret.FILE).write_text("s" * 64)
    with nobody() as address:
        own = Internal(data_dir, address=address)
        with pytest.raises(Absent):
            asyncio.run(own.change_level("lakelog", "debug"))
    with unix_squatter(data_dir, leave), pytest.raises(Problem) as problem:
        ask(data_dir)
    assert not isinstance(problem.value, Absent)


def test_a_change_that_was_not_answered_may_still_take_effect(data_dir, monkeypatch):
    levels = Levels("info")
    place = UnixPlace(data_dir / "run")
    endpoint = InternalEndpoint(place, {}, levels, lambda asked: asked())
    endpoint.start()

    async def late(_connection):
        raise TimeoutError

    with monkeypatch.context() as hanging:
        hanging.setattr(PartConnection, "_answer", late)
        with pytest.raises(Problem, match=f"timed out. {LATE}") as problem:
            asyncio.run(Internal(data_dir).change_level("lakelog.network", "debug"))
    assert problem.value.error_code == 50303
    assert not isinstance(problem.value, Unchanged)
    wait_until(lambda: levels.name_of("lakelog.network") == "debug")
    endpoint.close()


def test_a_change_that_was_refused_does_not_take_effect(listening, tmp_path):
    address, _ = listening
    other = tmp_path / "other"
    asking = Internal(tmp_path, address=address, file=other)
    for content in ("short", "x" * 40):
        other.write_text(content)
        with pytest.raises(Unchanged) as problem:
            asyncio.run(asking.change_level("lakelog", "debug"))
        assert not isinstance(problem.value, Absent)
        assert LATE not in problem.value.message


OTHER = "The broker speaks another version of the internal exchange"


def test_a_part_of_another_version_is_told(listening, data_dir):
    address, _ = listening
    asking = Internal(data_dir, address=address)
    for question, needs in (("unheard", ()), ("connections", ("n", "m"))):
        with pytest.raises(Problem, match=OTHER) as problem:
            asyncio.run(asking.rows(question, needs))
        assert problem.value.error_code == 50303
    with pytest.raises(Problem, match=OTHER):
        asyncio.run(asking.change_level("lakelog", "shouting"))
    assert asyncio.run(asking.rows("connections", ("n",))) == [{"n": 1}]


def test_one_that_wants_another_proof_is_of_another_version(data_dir, bound):
    said = CHALLENGE.replace(SCHEME.encode(), b"Lakelog-Other")
    squatting = squatter(bound, lambda asking: asking.sendall(said))
    with squatting, pytest.raises(Problem, match=OTHER):
        ask_at(data_dir, bound)
