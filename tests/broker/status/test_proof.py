"""A proof is good for one exchange with one part, and tells no secret."""

from dataclasses import replace

import pytest

from broker.status.proof import (
    SCHEME,
    Exchange,
    challenge_header,
    challenge_of,
    is_of_other_version,
    is_same,
    proved,
)

SECRET = "s" * 64
CHALLENGE, NUMBER = "c" * 32, "d" * 32
EXCHANGE = Exchange("broker", CHALLENGE, NUMBER, "GET", "/some")
OTHERS = [
    replace(EXCHANGE, part="compactor"),
    replace(EXCHANGE, challenge="e" * 32),
    replace(EXCHANGE, number="e" * 32),
    replace(EXCHANGE, method="PUT"),
    replace(EXCHANGE, path="/other"),
]
SHOWN = EXCHANGE.authorization(SECRET)


def taken(given, *, secret=SECRET, of=EXCHANGE):
    return proved(given, secret, of.part, of.challenge, of.method, of.path)


def test_who_has_the_secret_is_known_and_does_not_send_it():
    assert SECRET not in SHOWN
    assert taken(SHOWN) == EXCHANGE


@pytest.mark.parametrize("other", OTHERS)
def test_it_is_good_for_nothing_else(other):
    assert taken(SHOWN.replace(NUMBER, other.number), of=other) is None
    assert taken(other.authorization(SECRET), of=other) == other


@pytest.mark.parametrize(
    "given",
    [
        EXCHANGE.authorization("x" * 64),
        SHOWN.replace(SCHEME, "Bearer"),
        SHOWN.replace(SCHEME, SCHEME.lower()),
        SHOWN[:-1],
        SHOWN + "0",
        SHOWN + " 0",
        SHOWN + "\n",
        SHOWN[:-1] + "\xff",
        SHOWN[:-1] + "\udcff",
        SHOWN.replace(NUMBER, NUMBER[1:]),
        f"{SCHEME} {NUMBER} " + EXCHANGE.seal(SECRET, 200, ""),
        f"Bearer {SECRET}",
        SECRET,
        SCHEME,
        "",
        "   ",
    ],
)
def test_anything_else_is_none(given):
    assert taken(given) is None


def test_an_answer_is_proved_by_its_part_to_its_asker_and_as_it_is():
    seal = EXCHANGE.seal(SECRET, 200, "a" * 64)
    assert SECRET not in seal
    assert is_same(seal, EXCHANGE.seal(SECRET, 200, "a" * 64))
    others = {one.seal(SECRET, 200, "a" * 64) for one in OTHERS}
    others |= {
        EXCHANGE.seal(SECRET, 404, "a" * 64),
        EXCHANGE.seal(SECRET, 200, "b" * 64),
        EXCHANGE.seal("x" * 64, 200, "a" * 64),
        SHOWN.rpartition(" ")[2],
    }
    assert len(others) == len(OTHERS) + 4
    assert not any(is_same(seal, other) for other in others)


def test_a_challenge_is_read_as_it_was_written_and_nothing_else_is_one():
    assert challenge_of(challenge_header(CHALLENGE)) == CHALLENGE
    for header in ("", SCHEME, CHALLENGE, f"Bearer {CHALLENGE}", f"{SCHEME} x\ny"):
        assert challenge_of(header) is None
    assert challenge_of(challenge_header(CHALLENGE) + "\n") is None


def test_the_challenge_of_another_version_is_told_from_none():
    assert is_of_other_version(f"Lakelog-Other {CHALLENGE}")
    assert is_of_other_version(f"{SCHEME}-2 {CHALLENGE}")
    for header in ("", "Basic realm=x", SCHEME, challenge_header(CHALLENGE)):
        assert not is_of_other_version(header)
