"""Loggers of three processes: each changed in its own, all of them at once."""

import asyncio
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from admin_api.internal import LATE, Internal
from admin_api.loggers.parts import OF_PLANE, ROOT, Parts
from admin_api.problems import Problem
from broker.runtime.process import levels
from broker.runtime.process.internal import InternalEndpoint
from broker.runtime.process.internal_places import UnixPlace
from broker.runtime.process.levels import Levels
from broker.status import unix_socket
from broker.status.unix_socket import short_path


class Process:
    """A part with its endpoint, without the rest of it."""

    def __init__(self, data_dir, name, loggers):
        self.name, self.levels = name, Levels("info")
        self.endpoint = InternalEndpoint(
            UnixPlace(data_dir / "run", name),
            {},
            self.levels,
            lambda asked: asked(),
            loggers=loggers,
        )
        self.endpoint.start()


@pytest.fixture
def world(tmp_path):
    (tmp_path / "run").mkdir()
    broker = Process(tmp_path, unix_socket.NAME, levels.OF_BROKER)
    compactor = Process(tmp_path, unix_socket.OF_COMPACTOR, levels.OF_COMPACTOR)
    parts = Parts(
        Internal(tmp_path),
        Internal(tmp_path, unix_socket.OF_COMPACTOR, "compactor"),
        Levels("info"),
    )
    yield parts, broker, compactor
    broker.endpoint.close()
    compactor.endpoint.close()


def said(parts):
    return {one.name: one.level for one in asyncio.run(parts.loggers())}


def change(parts, name, level):
    return asyncio.run(parts.change(name, level))


def test_the_loggers_of_all_parts_are_named_once(world):
    parts, _, _ = world
    names = [one.name for one in asyncio.run(parts.loggers())]
    assert names == sorted(
        {ROOT, *levels.OF_BROKER, *levels.OF_COMPACTOR, *levels.OF_PLANE}
    )


@pytest.mark.parametrize("name", ["lakelog.network", "lakelog.compactor", OF_PLANE])
def test_a_level_is_changed_where_the_logger_is_and_nowhere_else(world, name):
    parts, _, _ = world
    assert change(parts, name, "debug")
    assert {one for one, level in said(parts).items() if level == "debug"} == {name}


def test_the_root_sets_all_of_all_parts(world):
    parts, _, compactor = world
    assert change(parts, "lakelog.compactor", "debug")
    assert change(parts, ROOT, "error")
    assert set(said(parts).values()) == {"error"}
    assert compactor.levels.name_of("lakelog.compactor") == "error"


def test_a_compactor_that_is_not_there_has_no_logger(world):
    parts, _, compactor = world
    compactor.endpoint.close()
    assert "lakelog.compactor" not in said(parts)
    assert not change(parts, "lakelog.compactor", "debug")
    assert change(parts, ROOT, "warning")
    assert not change(parts, "lakelog.other", "debug")


def test_one_that_runs_and_listens_nowhere_is_not_taken_for_none(world):
    parts, _, compactor = world
    compactor.endpoint.close()
    running = replace(parts, compactor_runs=lambda: True)
    for name in ("lakelog.compactor", "lakelog.other", ROOT):
        with pytest.raises(Problem, match="compactor's internal endpoint") as problem:
            change(running, name, "debug")
        assert LATE not in problem.value.message
    with pytest.raises(Problem, match="compactor's internal endpoint"):
        said(running)
    assert change(running, "lakelog.network", "error")


def test_a_plane_that_was_given_none_has_no_logger(world, tmp_path):
    parts, _, _ = world
    bare = Parts(parts.broker, parts.compactor)
    assert OF_PLANE not in said(bare)
    assert not change(bare, OF_PLANE, "debug")


@contextmanager
def silent(process, directory):
    """In its place somebody listens who closes without an answer."""
    process.endpoint.close()
    with socket.socket(socket.AF_UNIX) as bound:
        with short_path(directory, process.name) as path:
            bound.bind(path)
        bound.listen()

        def serve():
            while True:
                asking, _ = bound.accept()
                with asking:
                    if not asking.recv(1 << 16):
                        return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        with socket.socket(socket.AF_UNIX) as last:
            with short_path(directory, process.name) as path:
                last.connect(path)
            last.shutdown(socket.SHUT_WR)
            thread.join()


def test_a_compactor_that_does_not_answer_is_not_one_that_does_not_run(world, tmp_path):
    parts, broker, compactor = world
    silence = "The compactor's internal endpoint does not answer"
    with silent(compactor, tmp_path / "run"):
        for name in ("lakelog.compactor", "lakelog.other", ROOT):
            with pytest.raises(Problem, match=silence) as problem:
                change(parts, name, "debug")
            assert problem.value.error_code == 50303
            assert problem.value.message.endswith(LATE)
        with pytest.raises(Problem, match=silence):
            said(parts)
        with pytest.raises(Problem, match=silence):
            asyncio.run(parts.find("lakelog.compactor"))
        assert broker.levels.name_of("lakelog.network") == "debug"  # as of the root
        assert change(parts, "lakelog.network", "error")
        assert asyncio.run(parts.find("lakelog.network")).level == "error"
        assert asyncio.run(parts.find(OF_PLANE)).level == "debug"


def test_a_broker_that_does_not_answer_keeps_nobody_from_the_others(world, tmp_path):
    parts, broker, compactor = world
    silence = "The broker's internal endpoint does not answer"
    with silent(broker, tmp_path / "run"):
        assert change(parts, "lakelog.compactor", "debug")
        assert asyncio.run(parts.find("lakelog.compactor")).level == "debug"
        for name in ("lakelog.network", ROOT):
            with pytest.raises(Problem, match=silence):
                change(parts, name, "warning")
            with pytest.raises(Problem, match=silence):
                asyncio.run(parts.find(name))
        assert compactor.levels.name_of("lakelog.compactor") == "warning"
        compactor.endpoint.close()
        with pytest.raises(Problem, match=silence):
            change(parts, "lakelog.compactor", "info")


def test_who_of_several_does_not_answer_is_named(world, tmp_path):
    parts, broker, compactor = world
    run = tmp_path / "run"
    with (
        silent(broker, run),
        silent(compactor, run),
        pytest.raises(Problem, match=rf"broker's .*{LATE} .*compactor's .*{LATE}"),
    ):
        change(parts, ROOT, "debug")
