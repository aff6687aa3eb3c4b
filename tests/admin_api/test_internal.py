"""The broker's internal endpoint, as the plane asks it."""

import asyncio
import socket
import threading

import pytest

from admin_api import internal
from admin_api.internal import Internal
from admin_api.problems import Problem
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


@pytest.mark.parametrize("said", [b"", b"no HTTP\r\n\r\n"])
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
