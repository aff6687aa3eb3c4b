"""At an address nobody is answered who has not the secret; a socket has its mode."""

import http.client
import json
import socket
import threading
from concurrent.futures import Future
from contextlib import ExitStack, closing
from secrets import token_hex

import pytest

from broker.configuration.loading import load
from broker.runtime.process import internal
from broker.runtime.process.internal import InternalEndpoint, Question
from broker.runtime.process.internal_places import (
    TcpPlace,
    UnixPlace,
    place_of_broker,
    place_of_compactor,
)
from broker.runtime.process.levels import Levels
from broker.setting_values import SettingsError
from broker.settings import InternalSettings
from broker.status import secret
from broker.status.proof import Exchange, challenge_of
from broker.status.secret import SecretUnusable
from broker.status.unix_socket import short_path
from tests.support.patience import STUCK_S, wait_until

FEW = 16
"""Strangers, where not so many sockets are opened for a test as might be."""


class Part:
    """A part at an address that the kernel chose."""

    def __init__(self, directory, name="broker"):
        self.name, self.levels = name, Levels("info")
        self.held: Future[None] = Future()
        self.holding, self.waiting = threading.Event(), threading.Event()
        self.endpoint = InternalEndpoint(
            TcpPlace(name, "127.0.0.1:0", directory),
            {
                "some": Question(lambda: iter([{"n": 1}])),
                "held": Question(lambda: iter([{"n": 2}])),
            },
            self.levels,
            self._call,
        )
        self.endpoint.start()
        self.address = self.endpoint.address
        self.secret = secret.read(directory / secret.FILE)

    def _call(self, asked):
        """What belongs to the loop waits while it is held."""
        if self.holding.is_set():
            self.held.add_done_callback(lambda _: asked())
            self.waiting.set()
        else:
            asked()

    def asker(self):
        return Asker(self)

    def ask(self, path="/some", method="GET"):
        with closing(self.asker()) as asker:
            return asker.ask(asker.right(method, path), method=method, path=path)

    def is_answered(self):
        try:
            return self.ask()[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def connect(self):
        return socket.create_connection(self.address, timeout=STUCK_S)


class Asker(http.client.HTTPConnection):
    """A connection to a part, and the challenge that it got."""

    def __init__(self, part):
        super().__init__(*part.address, timeout=STUCK_S)
        self.part, self.challenge = part, ""
        self.connect()
        self.auto_open = 0
        status, _ = self.ask()
        assert status == 401

    def ask(self, *given, method="GET", path="/some"):
        """The status and the rows of an answer to these Authorization headers."""
        self.send_question(*given, method=method, path=path)
        return self.answer()

    def send_question(self, *given, method="GET", path="/some"):
        self.putrequest(method, path)
        for value in given:
            self.putheader("Authorization", value)
        self.endheaders()

    def answer(self):
        answer = self.getresponse()
        header = answer.getheader("WWW-Authenticate", "")
        self.challenge = challenge_of(header) or self.challenge
        lines = answer.read().splitlines()
        return answer.status, [json.loads(line) for line in lines]

    def right(self, method="GET", path="/some", part=None, number=None):
        """A proof for this connection, unless for another part."""
        numbers = (self.challenge, number or token_hex(16))
        exchange = Exchange(part or self.part.name, *numbers, method, path)
        return exchange.authorization(self.part.secret)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(internal, "TIMEOUT_S", STUCK_S)


@pytest.fixture
def part(tmp_path):
    part = Part(tmp_path)
    yield part
    part.endpoint.close()


def test_who_proves_to_have_the_secret_is_answered(part):
    assert part.ask() == (200, [{"n": 1}])
    assert part.ask("/loggers/lakelog.network?level=debug", "PUT") == (200, [])
    assert part.levels.name_of("lakelog.network") == "debug"
    assert part.ask("/nowhere") == (404, [])


def wrong_ones(part, method, path):
    """What proves nothing on a connection, from its right proof."""
    with closing(part.asker()) as asker:
        heard = asker.right(method, path)
        asker.ask(heard, method=method, path=path)
    return [
        lambda right: (),
        lambda right: ("",),
        lambda right: (f"Bearer {part.secret}",),
        lambda right: (right[:-1],),
        lambda right: (right + "x",),
        lambda right: (right.lower(),),
        lambda right: (right, right),
        lambda right: ("\xff",),
        lambda right: (heard,),
    ]


@pytest.mark.parametrize("path", ["/some", "/stacks", "/nowhere", "/loggers/lakelog"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_nobody_else_is_whatever_they_ask(part, method, path):
    for wrong in wrong_ones(part, method, path):
        with closing(part.asker()) as asker:
            given = wrong(asker.right(method, path))
            assert asker.ask(*given, method=method, path=path) == (401, [])
            with pytest.raises(http.client.HTTPException):  # nor tries again there
                asker.ask(asker.right(method, path), method=method, path=path)


def test_a_proof_is_for_a_question_to_a_part(part):
    for shown in (("PUT", "/some"), ("GET", "/other"), ("GET", "/some", "compactor")):
        with closing(part.asker()) as asker:
            assert asker.ask(asker.right(*shown)) == (401, [])


def test_what_was_heard_is_good_for_nothing_after_a_restart_either(part, tmp_path):
    """Whatever any clock says: none is looked at."""
    with closing(part.asker()) as asker:
        heard = asker.right()
        asker.ask(heard)
    part.endpoint.close()
    again = Part(tmp_path)
    assert again.secret == part.secret
    with closing(again.asker()) as asker:
        assert asker.ask(heard) == (401, [])
    assert again.is_answered()
    again.endpoint.close()


def test_a_first_question_is_challenged_whatever_it_has(part):
    with closing(part.asker()) as asker, closing(part.asker()) as other:
        right = other.right()
        assert right not in asker.right()
        assert other.challenge != asker.challenge
        assert other.ask(right) == (200, [{"n": 1}])


def test_many_who_have_the_secret_do_not_cut_each_other(part):
    with ExitStack() as many:
        askers = [many.enter_context(closing(part.asker())) for _ in range(80)]
        for asker in askers:
            asker.send_question(asker.right())
        assert {asker.answer()[0] for asker in askers} == {200}


def test_strangers_that_say_nothing_are_cut_off(part, monkeypatch):
    monkeypatch.setattr(internal, "TIMEOUT_S", 0.2)
    with part.connect() as mute:
        assert mute.recv(1) == b""


def test_a_stranger_that_trickles_is_cut_off_too(part, monkeypatch):
    """Each byte starts the socket's own time anew."""
    monkeypatch.setattr(internal, "TIMEOUT_S", 0.2)
    ended = threading.Event()
    with part.connect() as stranger:

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


def test_a_stranger_that_sends_more_than_a_head_is_cut_off(part):
    with part.connect() as stranger, pytest.raises(ConnectionError):
        stranger.sendall(b"X" * (64 << 20))


def test_who_has_the_secret_gets_the_place_of_a_stranger(part, monkeypatch):
    monkeypatch.setattr(internal, "STRANGERS_MAX", FEW)
    with ExitStack() as mute:
        many = [mute.enter_context(part.connect()) for _ in range(FEW)]
        wait_until(part.is_answered)
        assert many[0].recv(1) == b""


def test_who_was_admitted_is_pushed_out_by_no_stranger(part, monkeypatch):
    monkeypatch.setattr(internal, "STRANGERS_MAX", FEW)
    with closing(part.asker()) as asker, ExitStack() as mute:
        part.holding.set()
        asker.send_question(asker.right(path="/held"), path="/held")
        wait_until(part.waiting.is_set)
        strangers = [mute.enter_context(part.connect()) for _ in range(2 * FEW)]
        assert strangers[0].recv(1) == b""
        part.holding.clear()
        part.held.set_result(None)
        assert asker.answer() == (200, [{"n": 2}])


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_many_may_wait_to_be_taken(tmp_path, kind):
    place = TcpPlace("broker", "127.0.0.1:0", tmp_path)
    if kind == "unix":
        place = UnixPlace(tmp_path)
    with place.listen() as bound, short_path(tmp_path) as path, ExitStack() as many:
        where = path if kind == "unix" else bound.getsockname()
        for _ in range(100):
            waiting = many.enter_context(socket.socket(bound.family))
            waiting.settimeout(STUCK_S)
            waiting.connect(where)


def test_a_secret_that_is_named_has_to_be_there(tmp_path):
    place = TcpPlace("broker", "127.0.0.1:0", tmp_path, tmp_path / "named")
    with pytest.raises(SecretUnusable, match="named"):
        place.listen()
    assert not (tmp_path / secret.FILE).exists()
    (tmp_path / "named").write_text("x" * 32)
    place.listen().close()


def test_the_settings_say_where_a_part_answers(tmp_path):
    own = InternalSettings(broker="[::1]:7", secret=tmp_path / "file")
    place = place_of_broker(tmp_path, own)
    assert place == TcpPlace("broker", "[::1]:7", tmp_path, tmp_path / "file")
    assert place_of_compactor(tmp_path, own) == UnixPlace(tmp_path, "compactor.sock")
    assert place_of_broker(tmp_path, InternalSettings()) == UnixPlace(tmp_path)
    other = place_of_compactor(tmp_path, InternalSettings(compactor="127.0.0.1:8"))
    assert other == TcpPlace("compactor", "127.0.0.1:8", tmp_path)


def test_a_port_that_the_plane_cannot_know_is_refused():
    with pytest.raises(SettingsError, match="should name a port"):
        load({"internal.broker": "127.0.0.1:0"}, environment={})


def test_an_address_of_version_six_is_listened_on(tmp_path):
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with TcpPlace("broker", "[::1]:0", tmp_path).listen() as bound:
        assert bound.family == socket.AF_INET6
