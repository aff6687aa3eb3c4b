"""What is said while nothing comes: late enough, once, anew after something came."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace

import pytest

from broker.cli.failures import UserError
from broker.cli.silence import AGAIN_MS, LONG_MS, SAID_AFTER_MS, Silence
from broker.cli.wire import AnswerTooLong
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.support.clock import ManualClock
from tests.support.ports import nobody


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def silence(clock: ManualClock) -> Iterator[Silence]:
    with nobody() as address:
        found = Silence(address, "t", clock)
        parts = {"0": {"next_offset": 7}, "1": {"next_offset": -1001}}
        found.hear(json.dumps({"topics": {"t": {"partitions": parts}}}))
        yield found


def heard(silence: Silence, **offsets: int) -> None:
    parts = {name[1:]: {"next_offset": at} for name, at in offsets.items()}
    silence.hear(json.dumps({"topics": {"t": {"partitions": parts}}}))


def test_each_partition_is_told_once_until_something_comes_of_it(
    silence: Silence, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    silence.look({0})
    clock.advance(SAID_AFTER_MS - 1)
    silence.end([1])  # of another one, which tells nothing of this one
    silence.look({0})
    assert capsys.readouterr().err == ""
    clock.advance(1)
    silence.look({0, 1})
    said = capsys.readouterr().err
    assert said.startswith(
        "lakelog: partition 0 gives nothing from offset 7 on: no broker answers at "
    )
    assert "`lakelog table t`" not in said  # nothing is wrong with that
    clock.advance(SAID_AFTER_MS)
    silence.look({0, 1})
    assert capsys.readouterr().err.startswith("lakelog: partition 1 gives nothing; ")
    silence.end([0])
    silence.look({0, 1})
    clock.advance(SAID_AFTER_MS)
    silence.look({0, 1})
    assert "partition 0 " in capsys.readouterr().err
    clock.advance(SAID_AFTER_MS)
    silence.look({0, 1})
    assert capsys.readouterr().err == ""


def test_an_offset_that_moves_is_no_silence(
    silence: Silence, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """Thirty seconds of aborted records, say."""
    for at in range(7, 50):
        heard(silence, p0=at)
        silence.look({0})
        clock.advance(1_000)
    silence.check()
    assert capsys.readouterr().err == ""


def test_it_is_long_when_nothing_came_of_all_that_are_not_at_their_ends(
    silence: Silence, clock: ManualClock
) -> None:
    silence.look({0, 1})
    clock.advance(LONG_MS)
    silence.end([1])
    silence.look({0, 1})
    silence.check()
    silence.look({0})  # the other one is at its end
    with pytest.raises(UserError, match="nothing came for 30 s from 0 of t"):
        silence.check()
    silence.look(set())
    silence.check()


def test_what_comes_ends_a_long_silence(silence: Silence, clock: ManualClock) -> None:
    silence.look({0})
    clock.advance(LONG_MS)
    silence.look({0})
    silence.end([0])
    assert not silence.is_long
    silence.check()


class Leader:
    """A connection to a leader that refuses, or gives something of, or has nothing of
    what it is asked for, by partition; and keeps what it was asked."""

    def __init__(self, answers: dict[int, str]) -> None:
        self.answers = answers
        self.requests: list[FetchRequest] = []

    def open(self, _address: str) -> AbstractContextManager["Leader"]:
        return nullcontext(self)

    def ask(self, request: FetchRequest, at_most: int, longest: int) -> FetchResponse:
        assert (request.isolation_level, at_most) == (1, 12)
        self.requests.append(request)
        [topic] = request.topics
        asked = [one.partition for one in topic.partitions]
        assert longest < 1000 * len(asked)
        if "gives" in map(self.answers.get, asked):
            raise AnswerTooLong
        parts = [PartitionData(n, error_code=CODES[self.answers[n]]) for n in asked]
        return FetchResponse(responses=[FetchableTopicResponse("t", partitions=parts)])


CODES = {"refuses": ErrorCode.KAFKA_STORAGE_ERROR, "has nothing": ErrorCode.NONE}
HOST = SimpleNamespace(host="h", port=1)


def silence_at(
    leader: Leader, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Silence:
    """It knows that this leads all partitions, and where librdkafka is in them."""
    listed = {number: SimpleNamespace(leader=1) for number in leader.answers}
    topics = {"t": SimpleNamespace(partitions=listed)}
    known = SimpleNamespace(topics=topics, brokers={1: HOST})
    client = SimpleNamespace(list_topics=lambda timeout: known)
    monkeypatch.setattr("broker.cli.silence.admin", lambda _bootstrap: client)
    monkeypatch.setattr("broker.cli.silence.Wire", leader)
    found = Silence("h:1", "t", clock)
    heard(found, **{f"p{number}": 0 for number in leader.answers})
    return found


def test_a_leader_is_asked_by_the_topics_name_for_what_consumers_are_shown(
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of what is not committed or was aborted nothing comes either; that it would be
    readable is no answer. What it does not refuse is not said."""
    leader = Leader({7: "refuses", 8: "has nothing"})
    silence = silence_at(leader, clock, monkeypatch)
    silence.look({7, 8})
    clock.advance(SAID_AFTER_MS)
    silence.look({7, 8})
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith(
        "lakelog: partition 7 gives nothing from offset 0 on: KAFKA_STORAGE_ERROR; "
    )
    clock.advance(LONG_MS - SAID_AFTER_MS)
    silence.look({7, 8})
    assert silence.is_long
    assert len(leader.requests) == 1


def test_what_a_leader_gives_is_on_its_way_and_no_silence(
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is asked again, not often, for it sends what nobody reads; and may refuse."""
    leader = Leader({0: "gives"})
    silence = silence_at(leader, clock, monkeypatch)
    for _ in range(0, 3 * LONG_MS, 1_000):
        silence.look({0})
        assert not silence.is_long
        clock.advance(1_000)
    assert capsys.readouterr().err == ""
    assert 3 <= len(leader.requests) <= 5
    leader.answers[0] = "refuses"
    for _ in range(0, LONG_MS + AGAIN_MS, 1_000):
        silence.look({0})
        clock.advance(1_000)
    assert "partition 0 gives nothing from offset 0 on: " in capsys.readouterr().err
    assert silence.is_long


def test_what_it_refuses_is_said_beside_what_is_on_its_way(
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    leader = Leader({0: "gives", 1: "refuses", 2: "gives", 3: "refuses"})
    silence = silence_at(leader, clock, monkeypatch)
    silence.look({0, 1, 2, 3})
    clock.advance(SAID_AFTER_MS)
    silence.look({0, 1, 2, 3})
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in said] == ["1", "3"]


def test_it_asks_no_leader_for_long(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads far behind in many partitions over a thin line has other things to do;
    what was not asked is asked with what gives."""

    class Slow(Leader):
        def open(self, address: str) -> AbstractContextManager[Leader]:
            clock.advance(1_000)
            return super().open(address)

    leader = Slow(dict.fromkeys(range(100), "gives"))
    silence = silence_at(leader, clock, monkeypatch)
    for _ in range(2):
        silence.look(leader.answers)
        clock.advance(SAID_AFTER_MS)
    silence.look(leader.answers)
    assert 2 < len(leader.requests) < 10
