"""A version's time is the one by which Delta's readers find the version."""

import os
from datetime import UTC, datetime

import deltalake
import pytest

from admin_api.commits.history import history
from admin_api.commits.times import time_of
from admin_api.lake import Lake
from admin_api.versions.lookup import Wanted, look_up
from lakehouse.log.delta_log import entry_path
from tests.support.laked import make_table

LATER_MS = 1_800_000_000_000
"""Entries get these times, as in a copy that was made long after the commits."""


@pytest.fixture
def path(tmp_path):
    writer = make_table(tmp_path, "orders")
    for n in range(4):
        writer.add(0, n * 5, n * 5 + 5)
    set_times(writer.path, [LATER_MS + version * 1000 for version in range(5)])
    return writer.path


def set_times(path, times_ms):
    for version, at_ms in enumerate(times_ms):
        ns = at_ms * 1_000_000
        os.utime(entry_path(path, version), ns=(ns, ns))


def listed(tmp_path):
    lake = Lake(tmp_path)
    found = history(lake.snapshot(lake.topic("orders")), None, 50)
    return {one.version: one.timestamp_ms for one in found.commits}


def version_at(path, at_ms):
    table = deltalake.DeltaTable(path)
    table.load_as_version(datetime.fromtimestamp(at_ms / 1000, UTC))
    return table.version()


def test_time_travel_to_a_commits_time_opens_its_version(path, tmp_path):
    found = listed(tmp_path)
    assert len(found) == 5
    for version, at_ms in found.items():
        assert version_at(path, at_ms) == version
        looked_up = look_up(Lake(tmp_path), "orders", Wanted(version, None, None))
        assert looked_up.timestamp_ms == at_ms


def test_of_entries_that_came_in_one_moment_each_is_a_millisecond_later(path, tmp_path):
    """As Spark takes them: a clock that goes back does not put versions in disorder."""
    ties = [LATER_MS, LATER_MS, LATER_MS, LATER_MS - 5000, LATER_MS + 9]
    set_times(path, ties)
    after = [0, 1, 2, 3, 9]
    assert listed(tmp_path) == {n: LATER_MS + ms for n, ms in enumerate(after)}


def test_a_commits_time_is_that_of_time_travel(path):
    """Of a commit that says it itself: a file's time or a clock does not."""
    said = {"timestamp": 1_700_000_000_000, "inCommitTimestamp": 1_700_000_000_777}
    assert time_of(path, 2, said) == 1_700_000_000_777
    assert time_of(path, 2, {"timestamp": 5}) == LATER_MS + 2000
    said = {"timestamp": 5, "inCommitTimestamp": "x"}
    assert time_of(path, 2, said) == LATER_MS + 2000
    assert time_of(path, 9, {}) is None
