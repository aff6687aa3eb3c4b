"""What is said while nothing comes: late enough, once, anew after something came."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace

import pytest

from broker.cli.failures import UserError
from broker.cli.silence import LONG_MS, SAID_AFTER_MS, Silence
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


class Asked:
    """A connection to a leader that refuses what it is asked for, and keeps it."""

    def __init__(self) -> None:
        self.requests: list[tuple[FetchRequest, int]] = []

    def open(self, _address: str) -> AbstractContextManager["Asked"]:
        return nullcontext(self)

    def ask(self, request: FetchRequest, at_most: int) -> FetchResponse:
        self.requests.append((request, at_most))
        code = ErrorCode.KAFKA_STORAGE_ERROR
        parts = [PartitionData(7, error_code=code), PartitionData(8)]
        return FetchResponse(responses=[FetchableTopicResponse("t", partitions=parts)])


def test_a_leader_is_asked_by_the_topics_name_for_what_consumers_are_shown(
    silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is not committed or was aborted nothing comes either; that it would be
    readable is no answer."""
    wire = Asked()
    monkeypatch.setattr("broker.cli.silence.Wire", wire)
    leader = SimpleNamespace(host="h", port=1)
    assert silence._refused(leader, {7: 3, 8: 0}) == {7: "KAFKA_STORAGE_ERROR"}
    [(request, at_most)] = wire.requests
    assert (request.isolation_level, at_most) == (1, 12)
