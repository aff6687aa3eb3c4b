"""``lakelog admin`` as a process: where it listens, with which certificate, to whom."""

import json
import socket
import ssl
import sys
from http.client import HTTPSConnection
from pathlib import Path
from subprocess import run
from textwrap import dedent
from time import monotonic
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from admin_api.handshakes import HANDSHAKE_S
from broker.cli.admin import bootstrap_of
from broker.settings import Settings
from broker.status.file import path_of
from broker.status.schema import BrokerStatus
from tests.support.patience import STUCK_S, wait_until
from tests.support.ports import nobody
from tests.support.process import BrokerPart, Part, lakelog, told
from tests.support.saying import say_as

PEM = Path(__file__).parents[2] / "admin_api" / "access" / "localhost.pem"
ELSEWHERE = "evil.example"
"""A name of this machine that it did not give itself."""


@pytest.fixture
def part(tmp_path):
    """An admin plane before no broker, not started."""
    with nobody() as address:
        part = Part("admin", tmp_path / "data")
        part.arguments = ["--bootstrap", address, "--admin", "127.0.0.1:0"]
        yield part
        part.end()


@pytest.mark.parametrize("runs_first", [True, False])
def test_it_asks_the_broker_of_its_data_directory(tmp_path, runs_first):
    """With the broker's data directory and settings, and no address beside them."""
    broker = BrokerPart(tmp_path / "data")
    listener = ["-X", f"listener={broker.listener}"]
    plane = Part("admin", tmp_path / "data")
    plane.arguments = ["--admin", "127.0.0.1:0", *([] if runs_first else listener)]
    for part in (broker, plane) if runs_first else (plane, broker):
        part.start()
        wait_until(lambda: not runs_first or _kafka_said(broker))
    url = plane.facts["admin"]
    wait_until(lambda: status(f"{url}/readyz") == 200)
    plane.end()
    broker.end()


def _kafka_said(broker: BrokerPart) -> bool:
    file = path_of(broker.data_dir, BrokerStatus)
    return bool(json.loads(file.read_bytes())["kafka"])


@pytest.mark.parametrize(
    ("listener", "bootstrap"),
    [
        ("10.0.0.7:9", "10.0.0.7:9"),
        ("kafka.example:9", "kafka.example:9"),
        ("0.0.0.0:9", "127.0.0.1:9"),
        ("[::]:9", "[::1]:9"),
        ("[fd00::7]:9", "[fd00::7]:9"),
    ],
)
def test_a_broker_is_asked_where_it_listens(tmp_path, listener, bootstrap):
    settings = Settings(data_dir=tmp_path, listener=listener)
    assert bootstrap_of(settings) == bootstrap
    say_as(tmp_path, BrokerStatus(state="starting"))
    assert bootstrap_of(settings) == bootstrap
    say_as(tmp_path, BrokerStatus(state="stopping", kafka="127.0.0.1:1"))
    assert bootstrap_of(settings) == bootstrap
    say_as(tmp_path, BrokerStatus(kafka=listener))
    assert bootstrap_of(Settings(data_dir=tmp_path)) == bootstrap


def status(url: str, token: str = "", host: str = "", **more: object) -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    headers |= {"host": host} if host else {}
    try:
        with urlopen(Request(url, headers=headers), **more) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def made(data_dir: Path, role: str) -> str:
    where = ["--data-dir", str(data_dir), "--json"]
    said = lakelog("admin", "token", "create", "--role", role, *where)
    return json.loads(said)["token"]


def test_it_asks_for_tokens_from_the_moment_that_one_is_made(part):
    plane = part.start().facts["admin"]
    assert status(f"{plane}/v1/config") == 200
    assert status(f"{plane}/v1/config", host=ELSEWHERE) == 421
    token = made(part.data_dir, "viewer")
    assert status(f"{plane}/v1/config") == 401
    assert status(f"{plane}/v1/config", token) == 200
    assert status(f"{plane}/v1/config", token, host=ELSEWHERE) == 200
    assert status(f"{plane}/livez") == 200
    part.stop()
    assert "refused" in part.tail()
    assert token not in part.tail()


def test_a_peer_says_nothing_of_who_it_is(part):
    plane = part.start().facts["admin"]
    headers = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https"}
    headers["Content-Type"] = "application/json"
    with pytest.raises(HTTPError, match="400") as refused:
        urlopen(Request(f"{plane}/v1/loggers/x", b"{", headers, method="PUT"))
    refused.value.close()
    part.stop()
    [line] = [line for line in part.tail().splitlines() if "method=PUT" in line]
    assert "peer=127.0.0.1" in line
    assert "6.6.6.6" not in part.tail()


def test_it_speaks_tls_with_a_certificate(part):
    part.settings = [f"admin_tls.certificate={PEM}"]
    plane = part.start().facts["admin"]
    assert plane.startswith("https://127.0.0.1:")
    trusting = ssl.create_default_context(cafile=str(PEM))
    assert status(f"{plane}/livez", context=trusting) == 200
    with urlopen(f"{plane}/docs/swagger-ui-bundle.js", context=trusting) as answer:
        assert len(answer.read()) > 1 << 20  # more than any buffer on its way holds
    assert "pause_writing" not in part.tail()


def test_of_two_silent_connections_that_is_ended_which_never_asked(part):
    """Who is mute in TLS's handshake is ended before a client goes whose connection
    is kept for its next question."""
    part.settings = [f"admin_tls.certificate={PEM}"]
    host, port = part.start().facts["admin"].removeprefix("https://").split(":")
    trusting = ssl.create_default_context(cafile=str(PEM))
    kept = HTTPSConnection(host, int(port), context=trusting, timeout=STUCK_S)
    kept.connect()
    used = kept.sock
    began_s = monotonic()
    with socket.create_connection((host, int(port)), timeout=STUCK_S) as mute:
        kept.request("GET", "/livez")
        assert kept.getresponse().read()
        assert mute.recv(1) == b""
        waited_s = monotonic() - began_s
    assert HANDSHAKE_S - 1 < waited_s < 50, "asyncio itself would wait for a minute"
    kept.request("GET", "/livez")
    assert kept.getresponse().status == 200
    assert kept.sock is used
    kept.close()
    part.stop()
    assert "handshake" not in part.tail()


@pytest.mark.parametrize("command", ["admin", "up"])
def test_it_is_not_open_to_others_unless_that_is_said(tmp_path, command):
    where = ["--data-dir", str(tmp_path), "--admin", "0.0.0.0:0"]
    done = told(command, *where)
    assert (done.code, done.output) == (1, "")
    assert "say --insecure" in done.errors
    done = told(command, *where, "-X", f"admin_tls.certificate={tmp_path}/none")
    assert done.code == 1
    assert "admin_tls.certificate" in done.errors


def test_it_is_open_to_others_if_that_is_said(part):
    part.arguments[-1] = "0.0.0.0:0"
    part.arguments.append("--insecure")
    port = part.start().facts["admin"].rpartition(":")[2]
    assert status(f"http://127.0.0.1:{port}/v1/config") == 200
    assert status(f"http://127.0.0.1:{port}/v1/config", host=ELSEWHERE) == 200


def test_to_others_it_stays_closed_when_the_tokens_are_taken_away(part):
    part.arguments[-1] = "0.0.0.0:0"
    token = made(part.data_dir, "viewer")
    port = part.start().facts["admin"].rpartition(":")[2]
    url = f"http://127.0.0.1:{port}/v1/config"
    assert status(url, token) == 200
    (part.data_dir / "admin-tokens.json").unlink()
    assert status(url) == 401
    assert status(url, token) == 401


def test_up_asks_where_the_plane_may_listen_without_loading_it():
    """The broker is started behind this question: a second of imports kept it."""
    program = (
        "import sys; from broker.cli.admin import admin_socket;"
        "from broker.settings import Settings;"
        "admin_socket(Settings(admin='127.0.0.1:0'), insecure=False).close();"
        "print(sorted({'fastapi', 'uvicorn', 'admin_api.app'} & sys.modules.keys()))"
    )
    done = run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_it_is_not_ready_where_another_listens_before_its_broker_is_there(tmp_path):
    """Both may have the address while neither listens."""
    program = """
        import sys
        from admin_api.access.exposure import listen
        from broker.cli import main
        other = listen("127.0.0.1", 0)
        class Up:
            def readline(self):
                other.listen()
                return "127.0.0.1:1\\n"
        sys.stdin = Up()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        sys.argv[1:1] = ["admin", "--bootstrap", "-", "--admin", address]
        main()
    """
    command = [sys.executable, "-c", dedent(program), "--data-dir", str(tmp_path)]
    done = run(command, capture_output=True, text=True, timeout=STUCK_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot listen on 127.0.0.1:" in done.stderr


def test_it_does_not_listen_where_its_tokens_went_while_the_broker_started(tmp_path):
    program = f"""
        import pathlib, sys
        from admin_api.access.tokens import Role, Tokens
        from broker.cli import main
        data_dir = pathlib.Path({str(tmp_path)!r})
        Tokens(data_dir).create(Role.ADMIN, "mine", 0)
        class Up:
            def readline(self):
                (data_dir / "admin-tokens.json").unlink()
                return "127.0.0.1:1\\n"
        sys.stdin = Up()
        sys.argv[1:1] = ["admin", "--bootstrap", "-", "--admin", "0.0.0.0:0"]
        main()
    """
    command = [sys.executable, "-c", dedent(program), "--data-dir", str(tmp_path)]
    done = run(command, capture_output=True, text=True, timeout=STUCK_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert "token create" in done.stderr
    assert "Traceback" not in done.stderr
