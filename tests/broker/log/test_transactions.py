"""The transactions of a partition, against a list of everything that was written."""

import random
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.transactions import AbortedTransaction, Transactions
from broker.log.undecided import Undecided
from tests.broker.log.headers import header


def after(*steps: tuple[int, int, bool | None]) -> Transactions:
    """What was committed: (offset, producer, None for a record or what it says)."""
    transactions = Transactions()
    for base, producer, commits in steps:
        transactions.admit(base, producer, ends=commits is not None)
        transactions.commit(base, commits=commits)
    return transactions


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    transactions = Transactions()
    assert transactions.first_open is None
    for base in (4, 6):
        transactions.admit(base, 1)
        transactions.commit(base)
    assert (transactions.open, transactions.first_open) == ({1: 4}, 4)
    transactions.admit(8, 1, ends=True)
    transactions.commit(8, commits=True)
    assert not transactions.open
    assert not transactions.aborted(0, 9)


def test_what_is_on_its_way_is_admitted_and_not_open() -> None:
    transactions = Transactions()
    transactions.admit(0, 1)
    assert (transactions.admitted, transactions.open) == ({1: 0}, {})
    transactions.admit(1, 1, ends=True)
    assert not transactions.admitted
    transactions.commit(0)
    assert (transactions.admitted, transactions.open) == ({}, {1: 0})


def test_the_oldest_open_transaction_is_the_first() -> None:
    transactions = after((0, 1, None), (1, 2, None), (2, 3, None), (3, 1, True))
    assert transactions.first_open == 1
    again = Transactions.restore(transactions.snapshot())
    assert again.first_open == 1


def test_an_aborted_transaction_concerns_what_it_reaches_into() -> None:
    transactions = after((3, 7, None), (5, 7, False))
    found = [AbortedTransaction(7, 3)]
    for start, end in ((0, 4), (3, 4), (4, 5), (5, 6), (0, 9)):
        assert transactions.aborted(start, end) == found
    assert not transactions.aborted(0, 3)
    assert not transactions.aborted(6, 9)


def test_aborted_transactions_come_by_first_offset_and_not_by_marker() -> None:
    steps = (0, 1, None), (1, 2, None), (2, 3, None)
    markers = (3, 3, False), (4, 1, False), (5, 2, False)
    found = after(*steps, *markers).aborted(0, 6)
    assert [one.first_offset for one in found] == [0, 1, 2]


def test_a_marker_without_a_transaction_ends_nothing() -> None:
    assert not len(after((0, 1, False), (1, 1, True)))


def test_a_refused_batch_opens_nothing_and_the_next_one_does() -> None:
    transactions = Transactions()
    for base in (0, 1):
        transactions.admit(base, 1)
    transactions.abandon(0)
    assert transactions.admitted == {1: 1}
    transactions.commit(1)
    assert transactions.open == {1: 1}


def test_a_refused_marker_ends_nothing() -> None:
    transactions = after((0, 1, None))
    transactions.admit(1, 1, ends=True)
    transactions.admit(2, 2)
    transactions.abandon(1)
    assert transactions.admitted == {1: 0, 2: 2}
    assert transactions.open == {1: 0}


def test_a_refused_marker_before_the_next_transaction_makes_both_one() -> None:
    transactions = after((0, 1, None))
    transactions.admit(1, 1, ends=True)
    transactions.admit(2, 1)
    assert transactions.admitted == {1: 2}
    transactions.abandon(1)
    assert transactions.admitted == {1: 0}


def test_a_refused_batch_before_a_marker_leaves_nothing_admitted() -> None:
    transactions = Transactions()
    transactions.admit(0, 1)
    transactions.admit(1, 1, ends=True)
    transactions.abandon(0)
    assert not transactions.admitted


def test_a_refused_batch_of_nobodys_transaction_is_passed_over() -> None:
    transactions = Transactions()
    transactions.admit(5, 1)
    transactions.abandon(3)
    assert transactions.admitted == {1: 5}


def test_what_ends_below_the_log_is_forgotten_and_the_rest_stays_whole() -> None:
    transactions = after((0, 1, None), (1, 2, None), (2, 1, False), (3, 2, False))
    transactions.trim(2)
    assert len(transactions.aborted(0, 9)) == 2
    transactions.trim(3)
    assert transactions.aborted(0, 9) == [AbortedTransaction(2, 1)]
    transactions.trim(100)
    assert not len(transactions)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x01",
        b"\x02" + bytes(8),
        b"\x01\0\0\0\1\0\0\0\0" + bytes(15),
        b"\x01\0\0\0\0\0\0\0\1" + bytes(33),
        b"\x02" + bytes(11),
        b"\x02" + bytes(8) + b"\0\0\0\1" + bytes(15),
        b"\x03" + bytes(8),
        b"\x04" + bytes(8),
        b"\x04" + bytes(8 + 4 + 7),
        b"\x04" + bytes(8 + 4 + 9),
        b"\x05" + bytes(8 + 4 + 8),
    ],
)
def test_a_damaged_snapshot_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError):
        Transactions.restore(payload)


@pytest.mark.parametrize(("undecided", "version"), [([], 1), ([Undecided(0, 3)], 3)])
def test_a_snapshot_keeps_what_is_undecided_and_is_otherwise_as_before(
    undecided: list[Undecided], version: int
) -> None:
    transactions = after((0, 1, None), (1, 2, None), (2, 2, False))
    transactions.undecided = undecided
    again = Transactions.restore(transactions.snapshot())
    assert transactions.snapshot()[0] == version
    assert (again.undecided, again.open) == (undecided, {1: 0})
    assert again.aborted(0, 3) == transactions.aborted(0, 3)
    if undecided:  # as the version before wrote it
        older = Transactions.restore(b"\2" + transactions.snapshot()[1:])
        assert (older.undecided, older.open) == (undecided, {1: 0})
    transactions.forgotten_below = 9
    again = Transactions.restore(transactions.snapshot())
    assert transactions.snapshot()[0] == 4
    assert (again.undecided, again.open) == (undecided, {1: 0})
    assert (again.forgotten_below, again.aborted(0, 3)) == (9, [(2, 1)])
    again.trim(9, 8)
    assert again.forgotten_below == 9
    again.trim(9)
    assert again.snapshot()[0] == 1


@pytest.mark.parametrize(
    ("start", "undecided", "aborted"),
    [
        (0, [], [(1, 0)]),
        (1, [Undecided(0, 1)], [(1, 1)]),
        (3, [Undecided(0, 3)], [(1, 3)]),
        (4, [Undecided(0, 4)], []),
        (6, [Undecided(0, 4)], []),
    ],
)
@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_decides_from_its_start_on(
    start: int, undecided: list[Undecided], aborted: list[Any], commits: bool
) -> None:
    transactions = Transactions()
    for base, count in ((0, 1), (3, 1)):
        one = header(count, producer=1, transactional=True)
        transactions.admit(base, 1)
        transactions.separate(base, one)
        transactions.commit(base)
    transactions.admit(6, 1, ends=True)
    transactions.commit(6, commits=commits, start=start)
    assert (transactions.undecided, transactions.open) == (undecided, {})
    assert transactions.aborted(0, 7) == ([] if commits else aborted)


def test_nothing_at_all_takes_no_bytes() -> None:
    assert Transactions().snapshot() == b""
    assert not len(Transactions.restore(b""))


def test_those_in_a_long_transaction_are_not_looked_at_one_by_one() -> None:
    transactions = after((0, 99, None))
    for base in range(1, 20_001, 2):
        transactions.begin(base, 1)
        transactions.end(base + 1, 1, commits=False)
    transactions.end(20_001, 99, commits=True)
    steps = 0

    def step(*_: object) -> object:
        nonlocal steps
        steps += 1
        return step

    tracing = sys.gettrace()
    sys.settrace(step)
    try:
        found = transactions.aborted(5, 9)
    finally:
        sys.settrace(tracing)
    assert [one.first_offset for one in found] == [5, 7]
    assert 0 < steps < 1_000
    transactions.begin(20_002, 1)  # nothing of it is held on to
    transactions.end(20_003, 1, commits=False)
    transactions.trim(20_003)
    assert transactions.aborted(0, 20_004) == [AbortedTransaction(1, 20_002)]


# -- against a list ---------------------------------------------------------------


@dataclass
class Everything:
    """Each offset's producer, and what it says: None for a record."""

    written: list[tuple[int, bool | None]] = field(default_factory=list)

    def stable(self) -> int:
        return min((first for first, _, _, last in self._all() if last is None),
                   default=len(self.written))  # fmt: skip

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        return [
            AbortedTransaction(producer, first)
            for first, producer, commits, last in self._all()
            if commits is False and last is not None and first < end and last >= start
        ]

    def _all(self) -> list[tuple[int, int, bool | None, int | None]]:
        """(first offset, producer, how it ended, its marker) of every transaction."""
        found: list[tuple[int, int, bool | None, int | None]] = []
        for offset, (producer, commits) in enumerate(self.written):
            mine = [n for n, one in enumerate(found) if one[1::2] == (producer, None)]
            if commits is None and not mine:
                found.append((offset, producer, None, None))
            elif commits is not None and mine:
                first = found[mine[0]][0]
                found[mine[0]] = first, producer, commits, offset
        return found


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_agrees_with_a_list_of_everything(seed: int) -> None:
    chance, model, transactions = random.Random(seed), Everything(), Transactions()
    for offset in range(chance.randrange(60)):
        producer = chance.randrange(1, 5)
        commits = chance.choice([None, None, None, True, False])
        transactions.admit(offset, producer, ends=commits is not None)
        transactions.commit(offset, commits=commits)
        model.written.append((producer, commits))
        if chance.random() < 0.1:
            transactions = Transactions.restore(transactions.snapshot())
        stable = model.stable()
        first = transactions.first_open
        assert (offset + 1 if first is None else first) == stable
        assert transactions.admitted == transactions.open
        if stable:
            start = chance.randrange(stable)
            end = chance.randrange(start + 1, stable + 1)
            assert transactions.aborted(start, end) == model.aborted(start, end)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_admitted_follows_from_what_is_left_of_the_line(seed: int) -> None:
    """Refusals at any place, against a replay of all that was not refused."""
    chance, transactions = random.Random(seed), Transactions()
    done: list[tuple[int, int, bool | None]] = []
    line: list[tuple[int, int, bool | None]] = []
    for at in range(60):
        if line and chance.random() < 0.6:
            one = line.pop(0)
            if chance.random() < 0.3:
                transactions.abandon(one[0])
            else:
                transactions.commit(one[0], commits=one[2])
                done.append(one)
        else:
            commits = chance.choice([None, None, True, False])
            one = at, chance.randrange(1, 3), commits
            transactions.admit(*one[:2], ends=commits is not None)
            line.append(one)
        durable, admitted = Transactions(), Transactions()
        for base, producer, commits in done:
            durable.replay(base, header(producer=producer), commits=commits)
        for base, producer, commits in done + line:
            admitted.replay(base, header(producer=producer), commits=commits)
        assert transactions.open == durable.open
        assert transactions.admitted == admitted.open == admitted.admitted
