"""How the bench goes on when a run fails, and which tests it takes."""

import pytest

from infra.bench import __main__ as bench
from infra.bench.brokers import Kafka, Lakelog, LakelogInterval
from infra.bench.measures import Bench, Sizes


class Rival:
    name, works_behind, rested = "Kafka", False, 0

    def rest(self):
        self.rested += 1


def runs(*figures):
    """A test that gives these, one a run; None is a run that fails."""
    left = list(figures)

    def run(_rival):
        figure = left.pop(0)
        if figure is None:
            raise RuntimeError("failed=1")
        return {"p50": figure}

    return run, left


def test_a_run_that_fails_is_tried_once_more_and_costs_its_own_figure_only():
    test, left = runs(None, 2.0, None, None, 3.0)
    assert [bench._counted(test, Rival()) for _ in range(3)] == [
        {"p50": 2.0},
        {},
        {"p50": 3.0},
    ]
    assert not left


@pytest.mark.parametrize(
    ("figures", "runs_max", "left"),
    [
        ([5, 2, 1, 1.05, 9], 8, [9]),  # two agree
        ([5, 2, 1, 0.5, 9], 3, [0.5, 9]),  # no more than so many
        ([None, None, 1, 1, 9], 8, [9]),  # one that failed agrees with none
    ],
)
def test_it_is_warm_when_two_runs_agree_or_so_many_were_made(figures, runs_max, left):
    test, rest = runs(*figures)
    rival = Rival()
    first = bench._warm_up("acknowledgement at 200/s", test, rival, runs_max)
    assert first.get("p50") == figures[0]
    assert (rest, rival.rested) == (left, 1)


def test_several_names_are_chosen_with_a_bar_between_them(tmp_path):
    tests = Bench(tmp_path, tmp_path, Sizes())
    chosen = bench._chosen(tests, "JSON, lz4|connections")
    assert list(chosen) == [
        "produce JSON, lz4",
        "one-record requests, 16 connections",
        "one-record requests, 64 connections",
    ]
    assert list(bench._chosen(tests, "")) == list(tests.tests())


def test_the_relaxed_mode_is_started_as_that_and_writes_only(tmp_path):
    relaxed = LakelogInterval(tmp_path / "relaxed")
    assert relaxed.command()[-2:] == ["-X", "wal.sync=interval"]
    assert "-X" not in Lakelog(tmp_path / "durable").command()
    assert relaxed.takes("produce JSON")
    assert not relaxed.takes("consume 1 kB, 2 GB")
    assert Kafka.takes(relaxed, "consume 1 kB")
