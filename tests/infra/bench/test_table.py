"""The table of the brokers: medians, goals, and whether they are met."""

import pytest

from infra.bench.table import Results, shown

OURS, OTHERS = "Lakelog", ["Kafka", "Kafka, fsync"]


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "runs.jsonl")


def row(results, measure):
    """The cells of a measure by the heads of their columns."""
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in results.markdown(OURS, OTHERS).splitlines()
    )
    return dict(zip(head, next(r for r in rows if r[0] == measure), strict=True))


@pytest.mark.parametrize(("ours", "met"), [(99, "no"), (100, "yes")])
def test_bulk_is_held_beside_a_kafka_without_fsync(results, ours, met):
    for broker, figure in ((OURS, ours), ("Kafka", 100), ("Kafka, fsync", 5)):
        results.add("produce JSON", broker, {"MB/s": figure})
    found = row(results, "produce JSON, MB/s")
    assert (found["goal"], found["met"]) == (">= 1 of Kafka's", met)
    assert found["x of Kafka"] == f"{ours / 100:.2f}"


def test_one_connection_is_held_beside_a_kafka_that_syncs_more_beside_the_other(
    results,
):
    for test in ("1 connection", "16 connections"):
        for broker, figure in ((OURS, 60), ("Kafka", 100), ("Kafka, fsync", 41)):
            results.add(f"one-record requests, {test}", broker, {"req/s": figure})
    alone = row(results, "one-record requests, 1 connection, req/s")
    assert (alone["goal"], alone["met"]) == (">= 1.5 of Kafka's (Kafka, fsync)", "no")
    many = row(results, "one-record requests, 16 connections, req/s")
    assert (many["goal"], many["met"]) == (">= 0.6 of Kafka's", "yes")


def test_a_limit_needs_nobody_beside_it_and_counts_the_median(results):
    for p50 in (0.6, 0.64, 2.0):
        results.add("acknowledgement at 200/s", OURS, {"p50": p50, "p99": 9})
    found = row(results, "acknowledgement at 200/s, p50")
    assert (found["goal"], found["met"], found["Kafka"]) == ("<= 0.65", "yes", "-")
    assert row(results, "acknowledgement at 200/s, p99")["met"] == "-"


def test_a_ratio_without_a_kafka_is_neither_met_nor_missed(results):
    results.add("consume 1 kB", OURS, {"MB/s": 900, "broker cpu s/GB": 0.6})
    assert row(results, "consume 1 kB, MB/s")["met"] == "-"
    cpu = row(results, "consume 1 kB, broker cpu s/GB")
    assert (cpu["goal"], cpu["met"]) == ("<= 0.5", "no")


def test_a_figure_that_ours_has_not_is_not_judged(results):
    results.add("memory, after", "Kafka", {"MB": 1300})
    found = row(results, "memory, after, MB")
    assert (found["goal"], found["met"], found[OURS]) == ("<= 400", "-", "-")


@pytest.mark.parametrize(
    ("test", "goals"),
    [
        ("produce 100 B", [">= 1 of Kafka's", ""]),
        ("acknowledgement at 60 MB/s", ["", "<= 5"]),
        ("end to end at 1,000/s", ["<= 0.4", ""]),
        ("memory, idle", [""]),
        ("after kill -9", [""]),
    ],
)
def test_each_figure_has_its_goal(test, goals):
    assert [one.goal.text for one in shown(test)] == goals
