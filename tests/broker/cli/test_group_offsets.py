"""``lakelog group reset-offsets`` and ``lakelog topic trim``, against a broker."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.peer import Peer, batch_of
from tests.support.process import BrokerPart, told

Command = Callable[..., Any]
T_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path: Path = tmp_path_factory.mktemp("offsets")
    part = BrokerPart(path / "data", "groups.initial_rebalance_delay_ms=0")
    part.start()
    try:
        with Peer(part.bootstrap) as peer:
            peer.create("t", 2)
            for number in range(10):
                assert peer.produce("t", batch_of(b"%d" % number)).error_code == 0
        yield part.bootstrap
    finally:
        part.end()


@pytest.fixture
def ask(bootstrap: str) -> Command:
    def run(*words: str, code: int = 0) -> Any:
        done = told(*words, "--bootstrap", bootstrap, "--json")
        assert done.code == code, done
        return json.loads(done.output) if code == 0 else done.errors

    return run


def reset(ask: Command, group: str, *words: str, code: int = 0) -> Any:
    found = ask("group", "reset-offsets", group, *words, code=code)
    if code:
        return found
    return [(one["partition"], one["committed"], one["reset_to"]) for one in found]


def test_nothing_is_changed_until_it_is_said(ask: Command) -> None:
    words = ("--topic", "t", "--to-latest")
    for _ in range(2):
        assert reset(ask, "dry", *words) == [(0, None, 10), (1, None, 0)]
    assert reset(ask, "dry", *words, "--execute") == [(0, None, 10), (1, None, 0)]
    assert reset(ask, "dry", "--to-earliest") == [(0, 10, 0), (1, 0, 0)]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--to-offset", "7"), 7),
        (("--to-offset", "99"), 10),
        (("--to-datetime", "2001-01-01T00:00:00Z"), 0),
        (("--to-datetime", "2100-01-01T00:00:00Z"), 10),
        (("--shift-by", "3"), 8),
        (("--shift-by", "-4"), 1),
        (("--shift-by", "-99"), 0),
    ],
)
def test_a_group_goes_where_it_is_sent_and_not_out_of_the_log(
    ask: Command, words: tuple[str, ...], found: int
) -> None:
    reset(ask, "g", "--topic", "t", "--to-offset", "5", "--execute")
    assert reset(ask, "g", *words, "--execute")[0] == (0, 5, found)
    assert reset(ask, "g", "--to-earliest")[0] == (0, found, 0)


def test_a_group_without_an_id_is_told_in_a_sentence(ask: Command) -> None:
    assert "the group's id is empty" in reset(ask, "", "--to-earliest", code=2)


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        ((), 2, "say one of"),
        (("--to-latest", "--to-offset", "1"), 2, "say one of"),
        (("--to-latest", "--topic", "nowhere"), 1, "there is no topic 'nowhere'"),
        (("--to-latest",), 1, "has committed nothing"),
        (("--to-datetime", "soon"), 2, "soon"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    ask: Command, words: tuple[str, ...], code: int, why: str
) -> None:
    assert why in reset(ask, "nobody", *words, code=code)


def test_a_topic_is_trimmed(ask: Command, bootstrap: str) -> None:
    with Peer(bootstrap) as peer:
        peer.create("trimmed", 2)
        for number in range(4):
            peer.produce("trimmed", batch_of(b"%d" % number))
    one = ("topic", "trim", "trimmed")
    [row] = ask(*one, "--partition", "0", "--before", "3")
    assert row == {"topic": "trimmed", "partition": 0, "begins_at": 3}
    whole = ask(*one, "--before", "-1")
    assert [row["begins_at"] for row in whole] == [4, 0]
    assert "one of a --partition" in ask(*one, "--before", "1", code=2)
    assert "no partition 9" in ask(*one, "--before", "1", "--partition", "9", code=1)
    assert "no topic" in ask("topic", "trim", "none", "--before", "1", code=1)
    assert "OFFSET_OUT_OF_RANGE" in ask(
        *one, "--before", "99", "--partition", "0", code=1
    )
