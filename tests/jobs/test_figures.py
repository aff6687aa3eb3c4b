"""What rounds were like, as it is said."""

from broker.status.histogram import time_bounds_s
from broker.status.schema import CompactorStatus
from jobs.figures import TOPICS_MAX, Figures


def test_a_round_counts_its_time_its_rows_and_its_bytes():
    figures = Figures()
    figures.add_round(2_000, 300, 40_000)
    figures.add_round(5, 0, 0)
    said = figures.said(CompactorStatus(state="running"))
    assert said.state == "running"
    assert (sum(said.round_times.buckets), said.round_times.total) == (2, 2_005_000_000)
    assert (sum(said.round_rows.buckets), said.round_rows.total) == (1, 300)
    assert (sum(said.round_bytes.buckets), said.round_bytes.total) == (1, 40_000)
    assert time_bounds_s(len(said.round_times.buckets))[-1] > 300


def test_a_round_of_markers_alone_is_one_of_few_rows():
    figures = Figures()
    figures.add_round(5, 0, 100)
    assert figures.said(CompactorStatus()).round_rows.buckets[0] == 1


def test_the_topics_that_were_committed_last_are_named():
    figures = Figures()
    for number in range(TOPICS_MAX):
        figures.add_commit(f"t{number}", number)
    figures.add_commit("t0", 7)
    figures.add_commit("new", 8)
    said = figures.said(CompactorStatus())
    assert len(said.freshness_ms) == TOPICS_MAX
    assert (said.freshness_ms["t0"], said.freshness_ms["new"]) == (7, 8)
    assert "t1" not in said.freshness_ms
    assert sum(said.freshness.buckets) == TOPICS_MAX + 2


def test_a_deleted_topic_is_forgotten():
    figures = Figures()
    figures.add_commit("gone", 1)
    figures.add_commit("here", 2)
    figures.keep({"here", "other"})
    assert figures.said(CompactorStatus()).freshness_ms == {"here": 2}
