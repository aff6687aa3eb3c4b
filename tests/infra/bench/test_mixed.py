"""The soak: what it takes for wrong, and all of it in small."""

from pathlib import Path

import pytest

from infra.bench import mixed
from infra.bench.lake_house import House
from infra.bench.mixed import Look, differences, summary
from infra.bench.mixed_clients import FLOW, MONEY, Tally, actors


@pytest.fixture
def tally() -> Tally:
    made = Tally()
    made.add("acknowledged", FLOW, 3)
    made.add("acknowledged", MONEY, 20)
    return made


def test_ends_that_are_what_was_acknowledged_are_right(tally: Tally) -> None:
    assert differences({FLOW: 3, MONEY: 23}, tally) == []


def test_a_record_too_few_or_too_many_is_told(tally: Tally) -> None:
    assert differences({FLOW: 2}, tally) == ["flow: 3 acknowledged, but it ends at 2"]
    assert differences({FLOW: 4}, tally) == ["flow: 3 acknowledged, but it ends at 4"]


def test_a_record_of_which_nobody_wrote_anything_is_told(tally: Tally) -> None:
    found = {FLOW: 3, "trickle-1": 1}
    assert differences(found, tally) == ["trickle-1: 0 acknowledged, but it ends at 1"]


def test_what_failed_is_told(tally: Tally) -> None:
    tally.add("failed", FLOW)
    assert differences({FLOW: 3}, tally) == ["flow: 1 failed"]


def test_memory_is_told_at_each_quarter_and_at_most() -> None:
    looks = [Look(30.0 * n, mb, 2 * mb) for n, mb in enumerate([1, 2, 9, 4, 5])]
    assert list(summary(looks)) == [
        "broker, MB at each quarter: 1, 2, 9, 4, 5; most 9; goal at most 400",
        "compactor, MB at each quarter: 2, 4, 18, 8, 10; most 18",
    ]


def test_all_clients_work_and_the_ends_are_what_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixed, "LOOK_S", 0.5)
    house = House(tmp_path / "house")
    house.start(compactor=False)
    try:
        tally, looks, wrong = mixed.run(house, 4)
        assert wrong + differences(mixed.ends(house), tally) == []
        writers = {"flow", "python", "async", "money", "trickle-0", "trickle-9"}
        assert writers <= tally.acknowledged.keys()
        assert len(looks) > 3
        assert all(one.broker > 20 for one in looks)
    finally:
        house.stop()


def test_each_actor_has_a_name_of_its_own() -> None:
    named = actors("127.0.0.1:1", Tally())
    assert "flow" in named
    assert len(named) == 11
