"""Requests to the compactor; a test plays its part in the catalog and the status."""

import asyncio
import os
import time
from functools import partial

import pytest

from admin_api.compaction.operations import NOBODY, Operations, render
from admin_api.compaction.schemas import State
from admin_api.lake import Lake
from admin_api.problems import Problem
from admin_api.status import StatusFiles
from broker.catalog import requests, schema
from broker.catalog.catalog import Catalog
from broker.catalog.errors import CatalogMissing, CatalogTooOld
from broker.catalog.requests import FoundRequest
from broker.clock import SystemClock
from broker.status.file import encode, path_of
from broker.status.schema import CompactorStatus, TableState
from tests.support.laked import make_topic
from tests.support.old_catalogs import take_back, version_of
from tests.support.patience import IDLE_S


@pytest.fixture
def lake(tmp_path):
    make_topic(tmp_path, "orders")
    return Lake(tmp_path)


@pytest.fixture
def operations(lake, tmp_path):
    return Operations(lake, StatusFiles(tmp_path), SystemClock(), "http://plane")


def say(data_dir, *tables):
    """As a compactor that is there for as long as the test takes."""
    path = path_of(data_dir, CompactorStatus)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(encode(CompactorStatus(tables=tables)))
    os.utime(path, (time.time() + 3600,) * 2)


def found(**more):
    return FoundRequest(
        **({"id": 5, "topics": ("a",), "asked_ms": 1, "done_ms": None} | more)
    )


@pytest.mark.parametrize(
    ("request_", "tables", "state"),
    [
        (found(done_ms=9), [], State.DONE),
        (found(), [], State.RUNNING),
        (found(), [TableState("a", stuck=True, why="w", request_id=5)], State.STUCK),
        (found(), [TableState("a", stuck=True, why="w", request_id=4)], State.RUNNING),
        (found(), [TableState("a", stuck=True, why="w")], State.STUCK),
        (found(), [TableState("b", stuck=True, why="w")], State.RUNNING),
        (found(topics=None), [TableState("b", stuck=True, why="w")], State.STUCK),
        (found(), [TableState("a", lag_ms=5)], State.RUNNING),
    ],
)
def test_what_came_of_a_request(request_, tables, state):
    said = render("http://plane", request_, CompactorStatus(tables=tuple(tables)))
    assert said.state == state
    assert said.metadata.self == "http://plane/v1/operations/5"
    assert (said.reason is None) == (state != State.STUCK)


def test_without_a_compactor_a_request_waits_and_says_so(operations):
    asked = operations.compact("orders")
    assert (asked.state, asked.reason, asked.topic_names) == (
        State.RUNNING,
        NOBODY,
        ["orders"],
    )
    assert asyncio.run(operations.completed(asked, IDLE_S)) == asked


def test_it_waits_until_the_compactor_has_done_it(operations, lake, tmp_path):
    say(tmp_path)
    asked = operations.compact("orders")
    assert lake.read(requests.pending)[0].topics == ("orders",)

    async def story():
        waiting = asyncio.ensure_future(operations.completed(asked, IDLE_S))
        await asyncio.sleep(0)
        await asyncio.to_thread(
            lake.change, lambda c: requests.done(c, asked.operation_id, 9)
        )
        return await waiting

    done = asyncio.run(story())
    assert (done.state, done.done_ms, done.reason) == (State.DONE, 9, None)


def test_it_waits_no_longer_for_what_is_stuck_or_late(operations, tmp_path):
    say(tmp_path)
    asked = operations.compact("orders")
    late = asyncio.run(operations.completed(asked, 0.01))
    assert late.state == State.RUNNING
    say(tmp_path, TableState("orders", stuck=True, why="its table takes no commit"))
    stuck = asyncio.run(operations.completed(asked, IDLE_S))
    assert stuck.state == State.STUCK
    assert stuck.reason == "orders: its table takes no commit"


def test_what_is_not_there_is_not_asked_for_and_not_found(operations, tmp_path):
    with pytest.raises(Problem, match="no topic nobody"):
        operations.compact("nobody")
    with pytest.raises(Problem, match="no operation 7") as caught:
        operations.find(7)
    assert caught.value.status == 404


def test_asking_makes_no_catalog_where_there_is_none(tmp_path):
    lake = Lake(tmp_path)
    with pytest.raises(CatalogMissing):
        lake.change(lambda c: requests.ask(c, ["orders"], 1))
    assert list(tmp_path.iterdir()) == []


def test_asking_leaves_the_catalog_of_an_older_broker_as_it_is(operations, tmp_path):
    path, older = tmp_path / "catalog.db", schema.VERSION - 1
    with Catalog.open(path) as catalog:
        catalog.change(partial(take_back, version=older))
    with pytest.raises(CatalogTooOld, match="start a broker"):
        operations.compact("orders")
    assert version_of(path) == older


def test_what_waits_for_a_hold_of_an_owner_says_so():
    status = CompactorStatus(holds={"a": 1_700_000_000_000, "b": 1})
    operation = render("", found(), status)
    assert operation.state == State.RUNNING
    assert operation.reason.startswith("a: its owner holds its table until 2023-11-14")
    status = CompactorStatus(holds=status.holds, erased=("a",))
    assert render("", found(), status).reason.startswith(
        "a: lakelog erase holds its ta"
    )
