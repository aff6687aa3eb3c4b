"""Tables at rest are not looked at; whatever moves is."""

from pathlib import Path

import pytest

from lakehouse.watching import log_looks
from lakehouse.watching.log_looks import RECENT_MS, TURN_MS, UNTOLD_MS, LogLooks
from lakehouse.watching.log_watch import LogWatch

ROUND_MS = 250
TABLES = 40


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    for n in range(TABLES):
        (tmp_path / f"t{n}" / "_delta_log").mkdir(parents=True)
    return tmp_path


class Followed:
    """Looks at the tables of a warehouse, which have come to rest."""

    def __init__(self, warehouse: Path, *, is_told: bool) -> None:
        watch = LogWatch(str(warehouse), tells=lambda path: is_told)
        self.looks, self.now_ms = LogLooks(watch), 0
        for n in range(TABLES):
            self.looks.add(n, str(warehouse / f"t{n}"))
        assert self.round() == set(range(TABLES))
        self.rounds(RECENT_MS)
        self.rounds(RECENT_MS)

    def round(self) -> set[int]:
        """What is looked at in a round."""
        self.now_ms += ROUND_MS
        anew, recent = self.looks.due(self.now_ms)
        assert not anew & recent
        return anew | recent

    def rounds(self, duration_ms: int) -> list[int]:
        return [n for _ in range(duration_ms // ROUND_MS) for n in self.round()]


def entry(warehouse: Path, n: int, version: int = 0) -> Path:
    return warehouse / f"t{n}" / "_delta_log" / f"{version:020d}.json"


@pytest.mark.parametrize("is_told", [True, False])
def test_a_table_at_rest_is_looked_at_once_a_minute(
    warehouse: Path, *, is_told: bool
) -> None:
    followed = Followed(warehouse, is_told=is_told)
    for _ in range(3):
        looked_at = followed.rounds(TURN_MS)
        assert TABLES - 1 <= len(looked_at) <= TABLES + 1
        assert len(set(looked_at)) >= TABLES - 1


@pytest.mark.parametrize("is_told", [True, False])
def test_a_commit_is_seen_at_once_and_what_follows_it(
    warehouse: Path, *, is_told: bool
) -> None:
    followed = Followed(warehouse, is_told=is_told)
    entry(warehouse, 7).touch()
    within_ms = ROUND_MS if is_told else UNTOLD_MS + ROUND_MS
    seen = followed.rounds(within_ms)
    assert 7 in seen
    rounds = [followed.round() for _ in range(RECENT_MS // ROUND_MS - 4)]
    assert all(7 in looked_at for looked_at in rounds)
    followed.rounds(RECENT_MS)
    assert followed.rounds(TURN_MS).count(7) <= 2


def test_each_table_that_nothing_tells_of_costs_one_stat_a_second(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Followed(warehouse, is_told=False)
    stats: list[str] = []
    stamp = log_looks.stamp
    monkeypatch.setattr(
        log_looks, "stamp", lambda path: stats.append(path) or stamp(path)
    )
    followed.rounds(10_000)
    turns = TABLES * 10_000 // TURN_MS
    assert abs(len(stats) - 10 * TABLES - turns) <= TABLES // 2
    assert len(set(stats)) == TABLES


def test_who_is_told_asks_nothing(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Followed(warehouse, is_told=True)
    monkeypatch.setattr(log_looks, "stamp", None)
    followed.rounds(10_000)


def test_all_are_looked_at_if_anybody_asks_or_too_much_happened(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Followed(warehouse, is_told=True)
    followed.looks.all()
    assert followed.round() == set(range(TABLES))
    followed.rounds(2 * RECENT_MS)
    monkeypatch.setattr(LogWatch, "changed", lambda self: None)
    assert followed.round() == set(range(TABLES))


def test_what_was_dropped_is_looked_at_no_more(warehouse: Path) -> None:
    followed = Followed(warehouse, is_told=True)
    followed.looks.drop(7)
    followed.looks.drop(7)
    entry(warehouse, 7).touch()
    entry(warehouse, 8).touch()
    looked_at = followed.round()
    assert 8 in looked_at
    assert 7 not in looked_at
    followed.looks.moved(7, followed.now_ms)
    assert 7 not in followed.rounds(TURN_MS)


@pytest.mark.parametrize("is_told", [True, False])
def test_those_that_stay_have_their_turns_when_most_were_dropped(
    warehouse: Path, *, is_told: bool
) -> None:
    followed = Followed(warehouse, is_told=is_told)
    followed.rounds(UNTOLD_MS // 2)
    for n in range(2, TABLES):
        followed.looks.drop(n)
    assert set(followed.rounds(TURN_MS + ROUND_MS)) == {0, 1}
    entry(warehouse, 0).touch()
    entry(warehouse, 1).touch()
    assert set(followed.rounds(UNTOLD_MS + ROUND_MS)) == {0, 1}


def test_a_table_may_change_its_topic(warehouse: Path) -> None:
    """It was deleted, and made again: the new one is there before the old one goes."""
    followed = Followed(warehouse, is_told=True)
    followed.looks.add(99, str(warehouse / "t7"))
    followed.looks.drop(7)
    followed.rounds(2 * RECENT_MS)
    entry(warehouse, 7).touch()
    assert 99 in followed.round()
