"""At an address nobody is answered who has not the secret; a socket has its mode."""

import http.client
import socket
import threading
from contextlib import ExitStack
from secrets import token_hex

import pytest

from broker.configuration.loading import load
from broker.configuration.values import SettingsError
from broker.runtime.process import internal
from broker.runtime.process.internal import (
    CONNECTIONS_MAX,
    InternalEndpoint,
    Question,
)
from broker.runtime.process.internal_places import (
    TcpPlace,
    UnixPlace,
    place_of_broker,
    place_of_compactor,
)
from broker.runtime.process.levels import Levels
from broker.settings import InternalSettings
from broker.status import secret
from broker.status.proof import proof
from broker.status.secret import SecretUnusable
from tests.support.patience import wait_until


class Asked:
    """An endpoint at an address that the kernel chose."""

    def __init__(self, directory):
        self.place = TcpPlace("127.0.0.1:0", directory)
        self.levels = Levels("info")
        self.endpoint = InternalEndpoint(
            self.place,
            {"some": Question(lambda: iter([{"n": 1}]))},
            self.levels,
            lambda asked: asked(),
        )
        self.endpoint.start()
        self.address = self.endpoint.address
        self.secret = secret.read(directory / secret.FILE)

    def right(self, method="GET", path="/some"):
        """A proof of its own."""
        now_ms = self.place.clock.now_ms()
        return proof(self.secret, method, path, now_ms, token_hex(8))

    def ask(self, *given, method="GET", path="/some"):
        """The status and the body of an answer to these Authorization headers."""
        asked = http.client.HTTPConnection(*self.address)
        asked.putrequest(method, path)
        for value in given:
            asked.putheader("Authorization", value)
        asked.endheaders()
        answer = asked.getresponse()
        body = answer.read()
        asked.close()
        return answer.status, body

    def is_answered(self):
        try:
            return self.ask(self.right())[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def connect(self):
        return socket.create_connection(self.address)


@pytest.fixture
def asked(tmp_path):
    asked = Asked(tmp_path)
    yield asked
    asked.endpoint.close()


def test_who_proves_to_have_the_secret_is_answered(asked):
    assert asked.ask(asked.right()) == (200, b'{"n": 1}\n')
    path = "/loggers/lakelog.network?level=debug"
    right = asked.right("PUT", path)
    assert asked.ask(right, method="PUT", path=path)[0] == 204
    assert asked.levels.name_of("lakelog.network") == "debug"


@pytest.mark.parametrize("path", ["/some", "/stacks", "/nowhere", "/loggers/lakelog"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_nobody_else_is_whatever_they_ask(asked, method, path):
    right, once = asked.right(method, path), asked.right(method, path)
    asked.ask(once, method=method, path=path)
    wrong = [
        (),
        ("",),
        (f"Bearer {asked.secret}",),
        (right[:-1],),
        (right + "x",),
        (right.lower(),),
        (right, right),
        ("\xff",),
        (once,),
        (asked.right(method, "/another"),),
    ]
    for given in wrong:
        status, body = asked.ask(*given, method=method, path=path)
        assert status == 401, given
        assert b"lakelog" not in body


def test_before_it_listens_no_secret_is_the_right_one(tmp_path):
    place = TcpPlace("127.0.0.1:0", tmp_path)
    assert not place.may("", "GET", "/some")
    now_ms = place.clock.now_ms()
    assert not place.may(proof("", "GET", "/some", now_ms, "1"), "GET", "/some")


def test_strangers_that_say_nothing_are_cut_off(asked, monkeypatch):
    monkeypatch.setattr(internal, "TIMEOUT_S", 0.2)
    with ExitStack() as mute:
        for _ in range(CONNECTIONS_MAX):
            mute.enter_context(asked.connect())
        wait_until(asked.is_answered)


def test_a_stranger_that_trickles_is_cut_off_too(asked, monkeypatch):
    """Each byte starts the socket's own time anew."""
    monkeypatch.setattr(internal, "TIMEOUT_S", 0.2)
    ended = threading.Event()
    with asked.connect() as stranger:

        def trickle():
            try:
                while not ended.wait(0.02):
                    stranger.sendall(b"X")
            except OSError:
                ended.set()

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            wait_until(ended.is_set)
        finally:
            ended.set()
            thread.join()


def test_who_has_the_secret_gets_the_place_of_a_stranger(asked, monkeypatch):
    monkeypatch.setattr(internal, "TIMEOUT_S", 600)
    with ExitStack() as mute:
        many = [mute.enter_context(asked.connect()) for _ in range(CONNECTIONS_MAX)]
        wait_until(lambda: busy(asked) == CONNECTIONS_MAX)
        wait_until(asked.is_answered)
        assert many[0].recv(1) == b""


def busy(asked):
    return sum(
        thread.name == "internal-asker" and thread.is_alive()
        for thread in threading.enumerate()
    )


def test_a_secret_that_is_named_has_to_be_there(tmp_path):
    place = TcpPlace("127.0.0.1:0", tmp_path, tmp_path / "named")
    with pytest.raises(SecretUnusable, match="named"):
        place.listen()
    assert not (tmp_path / secret.FILE).exists()
    (tmp_path / "named").write_text("x" * 32)
    place.listen().close()
    right = proof("x" * 32, "GET", "/some", place.clock.now_ms(), "1")
    assert place.may(right, "GET", "/some")


def test_the_settings_say_where_a_part_answers(tmp_path):
    own = InternalSettings(broker="[::1]:7", secret=tmp_path / "file")
    place = place_of_broker(tmp_path, own)
    assert place == TcpPlace("[::1]:7", tmp_path, tmp_path / "file")
    assert place_of_compactor(tmp_path, own) == UnixPlace(tmp_path, "compactor.sock")
    assert place_of_broker(tmp_path, InternalSettings()) == UnixPlace(tmp_path)
    other = place_of_compactor(tmp_path, InternalSettings(compactor="127.0.0.1:8"))
    assert other.address == "127.0.0.1:8"


def test_a_port_that_the_plane_cannot_know_is_refused():
    with pytest.raises(SettingsError, match="should name a port"):
        load({"internal.broker": "127.0.0.1:0"}, environment={})


def test_an_address_of_version_six_is_listened_on(tmp_path):
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with TcpPlace("[::1]:0", tmp_path).listen() as bound:
        assert bound.family == socket.AF_INET6
