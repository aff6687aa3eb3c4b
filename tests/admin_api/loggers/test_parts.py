"""Loggers of three processes: each changed in its own, all of them at once."""

import asyncio

import pytest

from admin_api.internal import Internal
from admin_api.loggers.parts import OF_PLANE, ROOT, Parts
from broker.runtime.process import levels
from broker.runtime.process.internal import InternalEndpoint
from broker.runtime.process.internal_places import UnixPlace
from broker.runtime.process.levels import Levels
from broker.status import unix_socket


class Process:
    """A part with its endpoint, without the rest of it."""

    def __init__(self, data_dir, name, loggers):
        self.levels = Levels("info")
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


def test_a_plane_that_was_given_none_has_no_logger(world, tmp_path):
    parts, _, _ = world
    bare = Parts(parts.broker, parts.compactor)
    assert OF_PLANE not in said(bare)
    assert not change(bare, OF_PLANE, "debug")
