"""Each kind of broken promise, as a history that the judge must refuse."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.semantics.consumers import PROCESSORS, SINK, SOURCE
from tests.semantics.history import Event, Recorder, read
from tests.semantics.judge import Judge
from tests.simulation.model import Violation


class Writing:
    """A history that is made up, a line after the other; a line's time is its place."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._numbers = itertools.count(1)

    def line(self, what: str, who: str = "p", **facts: Any) -> int:
        t = 10 * len(self.events)
        facts = {"topic": SOURCE, "partition": 0, "asked": t} | facts
        self.events.append({"t": t, "what": what, "who": who, **facts})
        return t

    def send(self, value: str, transaction: str = "", **facts: Any) -> int:
        number = next(self._numbers)
        facts |= {"value": value, "number": number, "transaction": transaction}
        return self.line("send", **facts)

    def sent(self, value: str, offset: int, transaction: str = "", **facts: Any) -> int:
        """Sent and acknowledged; when it was sent."""
        asked = self.send(value, transaction, **facts)
        self.line("acked", value=value, offset=offset, asked=asked, **facts)
        return asked

    def end(self, transaction: str, *, commit: bool = True, **facts: Any) -> None:
        ending = {"transaction": transaction, "commit": commit, "id": "x"} | facts
        asked = self.line("ending", **ending)
        self.line("ended", **ending | {"asked": asked})

    def read(
        self,
        start: int,
        end: int,
        *records: tuple[int, str],
        committed: bool = False,
        **facts: Any,
    ) -> None:
        facts |= {"start": start, "end": end, "committed": committed}
        self.line("read", "r", records=list(records), **facts)

    def judged(self) -> Judge:
        judge = Judge(1)
        judge.hear(self.events)
        return judge


@pytest.fixture
def history() -> Writing:
    return Writing()


def test_what_can_be_true_is_let_pass(history: Writing) -> None:
    history.sent("a", 0)
    history.sent("b", 1, "t/1")
    history.read(0, 1, (0, "a"), committed=True)
    history.line("offering", transaction="t/1", group=PROCESSORS, offsets={"0": 1})
    history.end("t/1")
    history.sent("c", 3, "t/2")
    history.end("t/2", commit=False)
    history.read(0, 5, (0, "a"), (1, "b"), committed=True)
    history.read(0, 5, (0, "a"), (1, "b"), (3, "c"))
    history.line("stands", group=PROCESSORS, offsets={"0": 1})
    judge = history.judged()
    assert judge.committed(SOURCE) == {(0, 0): b"a", (0, 1): b"b"}
    assert judge.model.acknowledged == 3


def test_a_lost_record(history: Writing) -> None:
    history.sent("a", 0)
    history.read(0, 2)
    with pytest.raises(Violation, match="is not there"):
        history.judged()


def test_a_record_that_was_passed_before_it_was_acknowledged(history: Writing) -> None:
    asked = history.send("a")
    history.read(0, 1)
    history.line("acked", value="a", offset=0, asked=asked)
    with pytest.raises(Violation, match="is not there"):
        history.judged()


def test_a_doubled_record(history: Writing) -> None:
    history.sent("a", 0)
    history.read(0, 2, (0, "a"), (1, "a"))
    with pytest.raises(Violation, match="is at 0 and at 1"):
        history.judged()


def test_reordered_records(history: Writing) -> None:
    history.send("a")
    history.send("b")
    history.read(0, 2, (0, "b"), (1, "a"))
    with pytest.raises(Violation, match="stands behind"):
        history.judged()


def test_an_aborted_record_that_is_read(history: Writing) -> None:
    history.sent("a", 0, "t/1")
    history.end("t/1", commit=False)
    history.read(0, 1, (0, "a"), committed=True)
    with pytest.raises(Violation, match="nobody asked to commit"):
        history.judged()


def test_a_record_that_is_read_while_it_is_open(history: Writing) -> None:
    history.sent("a", 0, "t/1")
    history.read(0, 1, (0, "a"), committed=True)
    history.end("t/1")
    with pytest.raises(Violation, match="nobody asked to commit"):
        history.judged()


def test_half_a_transaction(history: Writing) -> None:
    history.sent("a", 0, "t/1")
    history.sent("b", 1, "t/1")
    history.line("ending", transaction="t/1", commit=True)
    history.read(0, 2, (0, "a"), committed=True)
    with pytest.raises(Violation, match=r"was committed .* and is not"):
        history.judged()


@pytest.mark.parametrize("found", [-1, 0, 4, 8])
def test_an_offset_that_is_skipped_lost_or_zero(history: Writing, found: int) -> None:
    history.line("committing", group="g", offsets={"0": 5})
    history.line("committed", group="g", offsets={"0": 5})
    history.line("stands", group="g", offsets={"0": found})
    with pytest.raises(Violation, match=f"committed is {found}"):
        history.judged()


def test_an_offset_is_held_to_what_was_known_when_it_was_asked_for(
    history: Writing,
) -> None:
    history.line("committing", group="g", offsets={"0": 5})
    asked = history.line("committing", group="g", offsets={"0": 5})
    history.line("committed", group="g", offsets={"0": 5})
    history.line("stands", group="g", offsets={"0": -1}, asked=asked - 1)
    history.judged()


@pytest.mark.parametrize("committed", [False, True])
def test_an_end_that_is_zero_for_once(history: Writing, committed: bool) -> None:
    history.sent("a", 0)
    facts = {"low": 0, "committed": committed}
    history.line("ends", high=1, **facts)
    history.line("ends", high=0, **facts)
    with pytest.raises(Violation, match=r"now 0 is|and is 0"):
        history.judged()


def test_an_offset_that_is_said_to_be_out_of_range(history: Writing) -> None:
    history.line("reset", text="out of range")
    with pytest.raises(Violation, match="out of range"):
        history.judged()


def begun(history: Writing, who: str) -> None:
    asked = history.line("begins", who, id="x")
    history.line("initialized", who, id="x", asked=asked)


def test_who_is_fenced_writes_no_more(history: Writing) -> None:
    begun(history, "old")
    history.sent("a", 0, "old/1", who="old")
    begun(history, "new")
    history.sent("b", 2, "old/1", who="old")
    with pytest.raises(Violation, match="new has fenced old"):
        history.judged()


def test_who_is_fenced_commits_no_more(history: Writing) -> None:
    begun(history, "old")
    history.sent("a", 0, "old/1", who="old")
    begun(history, "new")
    history.end("old/1", who="old")
    with pytest.raises(Violation, match="new has fenced old"):
        history.judged()


def test_two_that_begin_at_once_may_come_in_any_order(history: Writing) -> None:
    asked = history.line("begins", "one", id="x")
    begun(history, "two")
    history.line("initialized", "one", id="x", asked=asked)
    history.sent("a", 0, "one/1", who="one")
    history.end("one/1", who="one")
    history.judged()


def test_who_asked_first_may_have_fenced_who_asked_second(history: Writing) -> None:
    asked = history.line("begins", "one", id="x")
    begun(history, "two")
    history.line("initialized", "one", id="x", asked=asked)
    facts = {"id": "x", "is_over": True, "text": ""}
    history.line("refused", "two", error="_FENCED", **facts)
    history.judged()


def test_nobody_is_fenced_by_nobody(history: Writing) -> None:
    begun(history, "one")
    facts = {"id": "x", "is_over": True, "text": ""}
    history.line("refused", "one", error="_FENCED", **facts)
    with pytest.raises(Violation, match="is told _FENCED"):
        history.judged()
    history.events.pop()
    begun(history, "two")
    history.line("refused", "one", error="_FENCED", **facts)
    history.judged()
    history.line("refused", "one", error="OUT_OF_ORDER_SEQUENCE_NUMBER", **facts)
    with pytest.raises(Violation, match="OUT_OF_ORDER"):
        history.judged()


@pytest.mark.parametrize(
    ("killed", "acknowledged", "commit", "is_right"),
    [
        (True, False, False, True),
        (False, False, False, False),
        (True, True, False, False),
        (True, False, True, False),
    ],
)
def test_only_a_kill_leaves_nothing_to_abort(
    history: Writing, killed: bool, acknowledged: bool, commit: bool, is_right: bool
) -> None:
    begun(history, "one")
    asked = history.send("a", "one/1", who="one")
    if acknowledged:
        history.line("acked", "one", value="a", offset=0, asked=asked)
    if killed:
        history.line("runs", "story")
    history.line("ending", "one", transaction="one/1", commit=commit)
    facts = {"id": "x", "is_over": True, "text": "", "error": "INVALID_TXN_STATE"}
    history.line("refused", "one", **facts)
    if is_right:
        history.judged()
    else:
        with pytest.raises(Violation, match="INVALID_TXN_STATE"):
            history.judged()


def test_a_kill_of_before_is_no_excuse(history: Writing) -> None:
    begun(history, "one")
    history.line("runs", "story")
    history.send("a", "one/1", who="one")
    history.line("ending", "one", transaction="one/1", commit=False)
    facts = {"id": "x", "is_over": True, "text": "", "error": "INVALID_TXN_STATE"}
    history.line("refused", "one", **facts)
    with pytest.raises(Violation, match="INVALID_TXN_STATE"):
        history.judged()


@pytest.mark.parametrize(
    ("version", "commit", "rival"),
    [(1, True, True), (2, False, True), (2, True, False)],
)
def test_a_commit_of_version_2_may_meet_the_abort_that_fences_it(
    history: Writing, version: int, commit: bool, rival: bool
) -> None:
    def told(*, version: int, commit: bool, rival: bool) -> None:
        begun(history, "one")
        history.send("a", "one/1", who="one")
        history.line("ending", "one", transaction="one/1", commit=commit)
        if rival:
            history.line("begins", "two", id="x")
        facts = {"id": "x", "is_over": True, "text": "", "version": version}
        history.line("refused", "one", error="INVALID_TXN_STATE", **facts)
        history.judged()

    told(version=2, commit=True, rival=True)
    history.events.clear()
    with pytest.raises(Violation, match="is told INVALID_TXN_STATE"):
        told(version=version, commit=commit, rival=rival)


def test_a_producer_that_is_refused_what_was_in_order(history: Writing) -> None:
    history.send("a")
    history.line("failed", value="a", error="OUT_OF_ORDER_SEQUENCE_NUMBER")
    with pytest.raises(Violation, match="is refused"):
        history.judged()


def made(history: Writing, *sources: int) -> Judge:
    """Two records of the source, one of them aborted, and records made of them."""
    history.sent("a", 0)
    history.sent("b", 1, "t/1")
    history.end("t/1", commit=False)
    history.sent("c", 3)
    for offset, source in enumerate(sources):
        history.sent(f"{offset}<0:{source}", offset, topic=SINK)
    return history.judged()


def test_a_record_that_is_made_once_of_each_is_right(history: Writing) -> None:
    made(history, 0, 3).is_exactly_once()


@pytest.mark.parametrize(
    ("sources", "why"),
    [
        ((0,), "1 records skipped"),
        ((0, 3, 3), "is 2 times"),
        ((0, 1, 3), "does not count"),
    ],
)
def test_a_record_that_is_made_twice_never_or_of_nothing(
    history: Writing, sources: tuple[int, ...], why: str
) -> None:
    judge = made(history, *sources)
    with pytest.raises(Violation, match=why):
        judge.is_exactly_once()


def test_a_history_outlives_its_writer_but_for_a_line_that_is_cut_off(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    recorders = [Recorder(path, path.name) for path in paths]
    for number in range(3):
        for recorder in recorders:
            recorder.note("said", number=number)
    for recorder in recorders:
        recorder.close()
    with paths[0].open("ab") as file:
        file.write(b'{"t": 12, "wh')
    found = [(event["number"], event["who"]) for event in read(paths)]
    assert found == [(n, who) for n in range(3) for who in ("a", "b")]
