"""What the compactor says: whole, named, and understood by who reads it."""

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from broker.status import file
from broker.status.file import STALE_S
from broker.status.schema import CompactorStatus
from broker.topics.topic import Topic
from jobs.batches import Batches, Places
from jobs.planner import Pending
from jobs.status import (
    LOG_AGAIN_MS,
    TABLES_MAX,
    Counters,
    HeldLog,
    StatusFile,
    problems_of,
    table_states,
)
from jobs.stuck import WHOLE_TOPIC, Stuck


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    said = CompactorStatus(state="running", counters=Counters(rounds=1).totals())
    status = StatusFile(tmp_path, lambda: said, lambda: True)
    status.start()
    assert file.read(tmp_path, CompactorStatus, time.time()) == said
    said = CompactorStatus(state="stopped")
    status.stop()
    assert file.read(tmp_path, CompactorStatus, time.time()) == said


class Part:
    """A compactor that says where it stands; it is stopped without a last word."""

    def __init__(self, data_dir: Path, state: str, *, has_lease: bool) -> None:
        self.said = CompactorStatus(state=state, pid=1)  # all are, in their containers
        self.has_lease, self._data_dir = has_lease, data_dir
        self.status = StatusFile(data_dir, lambda: self.said, lambda: self.has_lease)

    @property
    def is_read(self) -> bool:
        return file.read(self._data_dir, CompactorStatus, time.time()) == self.said


def test_who_stands_by_says_nothing_over_one_that_has_the_lease(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    works = Part(tmp_path, "running", has_lease=True)
    stands_by = Part(tmp_path, "another compactor has the lease", has_lease=False)
    for state in ("starting", "another compactor has the lease", "stopped"):
        works.status.write()
        stands_by.said = replace(stands_by.said, state=state)
        stands_by.status.write()
        assert works.is_read
    works.has_lease, stands_by.has_lease = False, True
    stands_by.said = replace(stands_by.said, state="running", written_ms=1)
    stands_by.status.write()
    works.said = replace(works.said, state="another compactor has the lease")
    works.status.write()
    assert stands_by.is_read


def test_so_it_is_of_its_last_word(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    works = Part(tmp_path, "running", has_lease=True)
    works.status.write()
    stands_by = Part(tmp_path, "stopped", has_lease=False)
    stands_by.status.start()
    stands_by.status.stop()
    assert works.is_read


@pytest.mark.parametrize(("state", "ago_s"), [("running", STALE_S + 1), ("stopped", 0)])
def test_who_stands_by_says_so_where_nobody_else_says_anything(
    tmp_path: Path, state: str, ago_s: float
) -> None:
    (tmp_path / "run").mkdir()
    Part(tmp_path, state, has_lease=True).status.write()
    said_s = time.time() - ago_s
    os.utime(file.path_of(tmp_path, CompactorStatus), (said_s, said_s))
    stands_by = Part(tmp_path, "starting", has_lease=False)
    for state in ("starting", "another compactor has the lease", "stopped"):
        stands_by.said = replace(stands_by.said, state=state)
        stands_by.status.write()
        assert stands_by.is_read


def test_a_disk_that_takes_nothing_does_not_stop_it(tmp_path: Path) -> None:
    StatusFile(tmp_path / "missing", CompactorStatus, lambda: True).write()


def test_counters_are_named_as_such() -> None:
    assert Counters(rows=3).totals()["rows_total"] == 3
    assert all(name.endswith("_total") for name in Counters().totals())


def topic(number: int) -> Topic:
    return Topic(number, bytes(16), f"t{number}", 2)


def pending(number: int, since_ms: int, bytes_: int = 10) -> Pending:
    one = np.array([0], np.int64)
    chunk = Batches.all_of(
        1, "", Places.of(one, one, one, np.array([bytes_], np.int64))
    )
    return Pending((number, 0), 0, [chunk], since_ms)


def test_stuck_tables_come_first_with_their_reason() -> None:
    stuck = Stuck()
    for now_ms in (40, 50):
        stuck.fail((2, WHOLE_TOPIC), "it takes no commit", now_ms, request_id=now_ms)
    topics = {number: topic(number) for number in (1, 2, 3, 4, 5)}
    states = table_states(
        topics, [pending(1, 90), pending(2, 30), pending(3, 10)],
        {(1, 0): 5, (1, 1): 6}, {4: "it is torn"}, stuck, 100,
        refusing={5: "lost", 3: "x"}, wall_ms=5_000_100,
    )  # fmt: skip
    assert [(s.topic, s.stuck, s.readable, s.why) for s in states] == [
        ("t2", True, True, "it takes no commit"),
        ("t4", False, False, "it is torn"),
        ("t3", False, True, "x"),
        ("t1", False, True, ""),
        ("t5", False, True, "lost"),
    ]
    assert [(s.since_ms, s.lag_ms, s.pending_bytes) for s in states[:3]] == [
        (5_000_040, 70, 10), (0, 0, 0), (0, 90, 10),
    ]  # fmt: skip
    assert states[3].ends == {0: 5, 1: 6}
    assert [state.lags_ms for state in states] == [{0: 70}, {}, {0: 90}, {0: 10}, {}]
    assert [state.request_id for state in states] == [50, *[None] * 4]
    assert problems_of(topics, stuck) == ("t2 cannot be compacted: it takes no commit",)


def test_of_several_failures_of_a_topic_the_one_tried_last_is_told() -> None:
    stuck = Stuck()
    for partition, request_id in enumerate((3, 5, 4)):
        why = f"damage {partition}"
        stuck.fail((2, partition), why, 1, certain=True, request_id=request_id)
    [state] = table_states(
        {2: topic(2)}, [], {}, {}, stuck, 100, refusing={}, wall_ms=100
    )
    assert (state.why, state.request_id) == ("damage 1", 5)


def test_a_status_is_no_listing_of_ten_thousand_tables() -> None:
    topics = {number: topic(number) for number in range(TABLES_MAX + 5)}
    waiting = [pending(number, 0) for number in topics]
    states = table_states(topics, waiting, {}, {}, Stuck(), 1, refusing={}, wall_ms=1)
    assert len(states) == TABLES_MAX


def test_what_is_written_again_is_told_in_per_cent() -> None:
    assert Counters().amplification_percent == 0
    assert Counters(file_bytes=200).amplification_percent == 100
    assert Counters(file_bytes=200, merge_file_bytes=300).amplification_percent == 250


def test_what_stops_before_damage_is_logged_each_minute() -> None:
    held_log, held = HeldLog(), {(1, 0): "one batch", (2, 1): "another"}
    with capture_logs() as logs:
        held_log.look({}, 4)
        held_log.look(held, 5)
        held_log.look(held, LOG_AGAIN_MS + 4)
    assert [line["why"] for line in logs] == ["one batch", "another"]
    with capture_logs() as logs:
        held_log.look(held, LOG_AGAIN_MS + 5)
    assert [line["topic"] for line in logs] == [1, 2]
