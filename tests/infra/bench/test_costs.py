"""The bench of costs: its table, and each of its tests in small against a broker."""

import shutil
from pathlib import Path

import pytest

from infra.bench import brokers, tools
from infra.bench.cost_measures import Cost, CostBench, Sizes
from infra.bench.costs import markdown
from infra.bench.goals import at_most, of_kafka
from infra.bench.old_messages import CODECS
from infra.bench.records import write_json_lines

SMALL = Sizes(
    txn_s=0.3, joining=5, beating=20, groups=2, beat_s=0.2, beats_s=0.6, topics=3,
    partitions=2, asked=2, old_s=0.05, old_lines=3_000, rounds=1, delay_s=0.2,
)  # fmt: skip


class Small(brokers.LakelogAlone):
    settings = ("group.initial.rebalance.delay.ms=200",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("costs")


@pytest.fixture(scope="module")
def bench(folder):
    lines = write_json_lines(folder / "records.json", 3_000)
    return CostBench(folder, lines, SMALL)


@pytest.fixture(scope="module")
def broker(folder):
    found = Small(folder / "broker")
    try:
        found.start()
        yield found
    finally:
        found.stop()


def costs_in(bench: CostBench, word: str) -> dict[str, Cost]:
    every = bench.beside_kafka() | bench.of_old_clients()
    return {name: cost for name, cost in every.items() if word in name}


def test_each_row_of_the_issue_is_there_and_is_chosen_by_one_word(bench):
    names = costs_in(bench, "costs, ")
    assert len(costs_in(bench, "transactions")) == 4
    assert len(costs_in(bench, "magic")) == 2 * 2 * len(CODECS)
    assert len(names) == 4 + 3 + 16
    assert names.keys() == costs_in(bench, "").keys()


@pytest.mark.parametrize("word", ["join", "heartbeats", "Metadata"])
def test_members_and_metadata_have_figures(bench, broker, word):
    [cost] = costs_in(bench, word).values()
    figures = cost.run(broker)
    assert figures.keys() >= cost.goals.keys()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("partitions", [1, 10])
def test_transactions_have_figures(bench, broker, folder, partitions):
    tools.build(folder)
    name = {1: "1 partition, 8", 10: "10 partitions, 8"}[partitions]
    [cost] = costs_in(bench, f"transactions of {name} clients").values()
    figures = cost.run(broker)
    assert figures["txns/s"] > 0
    assert figures.keys() >= cost.goals.keys()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("word", ["produce magic", "fetch magic"])
def test_old_clients_have_figures(bench, broker, folder, word):
    tools.build(folder)
    for cost in costs_in(bench, word).values():
        assert cost.run(broker)["MB/s"] > 0


def test_a_row_tells_medians_kafkas_share_and_whether_the_goal_is_met():
    goals = {"txns/s": of_kafka(0.5), "p50 ms": at_most(50)}
    costs = {"some": Cost(lambda _: {}, goals, rounds=3)}
    found = {
        ("some", "txns/s"): {"Lakelog": [30.0, 60.0, 40.0], "Kafka": [100.0]},
        ("some", "p50 ms"): {"Lakelog": [1234.0]},
    }
    assert markdown(found, costs).splitlines() == [
        "| measure | figure | Lakelog | Kafka | of Kafka's | goal | met |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| some | txns/s | 40 (30-60) | 100 | 0.40 | >= 0.5 of Kafka's | no |",
        "| some | p50 ms | 1,234 | - | - | <= 50 | no |",
    ]


def test_the_homes_of_brokers_are_new(folder):
    home: Path = folder / "home"
    (home / "data").mkdir(parents=True)
    assert not any(Small(home).home.iterdir())
