"""The broker's internal endpoint, as the plane asks it."""

import asyncio
import socket
import threading

import pytest

from admin_api import internal
from admin_api.internal import Internal
from admin_api.problems import Problem
from broker.runtime.process.internal import InternalEndpoint, Question
from broker.runtime.process.internal_places import TcpPlace
from broker.runtime.process.levels import Levels
from broker.settings import InternalSettings, Settings
from broker.status import secret
from broker.status.unix_socket import short_path


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
    ],
)
def test_nonsense_is_no_answer(data_dir, said):
    with socket.socket(socket.AF_UNIX) as server:
        with short_path(data_dir / "run") as path:
            server.bind(path)
        server.listen()

        def answer():
            client, _ = server.accept()
            with client:
                client.recv(1000)
                client.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Problem):
            ask(data_dir)
        thread.join()


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
    """A part at an address: where, and the file of its secret."""
    endpoint = InternalEndpoint(
        TcpPlace("127.0.0.1:0", data_dir / "run"),
        {"connections": Question(lambda: iter([{"n": 1}]))},
        Levels("info"),
        lambda asked: asked(),
    )
    endpoint.start()
    yield "{}:{}".format(*endpoint.address), data_dir / "run" / secret.FILE
    endpoint.close()


def test_at_an_address_the_secret_is_proved(listening, data_dir, tmp_path):
    address, file = listening
    own = InternalSettings(broker=address, compactor=address)
    settings = Settings(data_dir=data_dir, internal=own)
    rows = asyncio.run(Internal.of_broker(settings).rows("connections"))
    assert rows == [{"n": 1}]
    compactor = Internal.of_compactor(settings)
    assert asyncio.run(compactor.change_level("lakelog", "debug"))
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


def test_who_listens_in_the_place_of_a_part_learns_no_secret(data_dir):
    file = data_dir / "run" / secret.FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("s" * 64)
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as bound:

        def listen():
            asking, _ = bound.accept()
            with asking:
                heard.append(asking.recv(1 << 16))

        thread = threading.Thread(target=listen)
        thread.start()
        own = InternalSettings(broker="{}:{}".format(*bound.getsockname()))
        settings = Settings(data_dir=data_dir, internal=own)
        with pytest.raises(Problem):
            asyncio.run(Internal.of_broker(settings).rows("connections"))
        thread.join()
    assert b"Authorization: Lakelog-HMAC-SHA256 " in heard[0]
    assert b"s" * 64 not in heard[0]
