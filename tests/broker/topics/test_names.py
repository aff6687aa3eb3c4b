"""Topic names: Kafka's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics import names


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "_", "-", "x" * 249])
def test_what_kafka_allows_is_allowed(name: str) -> None:
    assert names.validate(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (None, "empty"),
        ("", "empty"),
        (".", "'.' or '..'"),
        ("..", "'.' or '..'"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("../etc", "other than ASCII"),
        ("a/b", "other than ASCII"),
        ("a b", "other than ASCII"),
        ("a\n", "other than ASCII"),
        ("a\0", "other than ASCII"),
        ("ä", "other than ASCII"),
        ("٣", "other than ASCII"),
    ],
)
def test_what_kafka_refuses_is_refused(name: str | None, why: str) -> None:
    with pytest.raises(KafkaError, match=why) as caught:
        names.validate(name)
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


@given(st.text(max_size=20))
def test_a_name_that_passes_is_plain(name: str) -> None:
    try:
        names.validate(name)
    except KafkaError:
        return
    assert name.isascii()
    assert all(one.isalnum() or one in "._-" for one in name)
    assert name not in (".", "..")


def test_dots_and_underscores_collide() -> None:
    assert taken("x", "a_b").colliding("a.b") == "a_b"
    assert taken("a.b", "A_b", "a-b").colliding("a.b") is None


def test_a_name_that_is_used_no_more_collides_with_nothing() -> None:
    used = taken("a.b", "a_b", "a.b")
    assert used.colliding("a.b") == "a_b"
    used.discard("a_b")
    assert (used.colliding("a.b"), used.colliding("a_b")) == (None, "a.b")
    used.discard("a.b")
    used.discard("never")
    assert used.colliding("a_b") is None


def test_names_beside_each_other_do_not_collide() -> None:
    used, beside = taken("a.b", "a_b"), taken("a.b")
    assert used.colliding("a.b", beside) == "a_b"
    assert (used.colliding("a_b", beside), used.colliding("a_b")) == (None, "a.b")
    beside.add("a_b")
    assert (used.colliding("a.b", beside), used.colliding("a_b", beside)) == (
        None,
        None,
    )
    beside.discard("a_b")
    assert used.colliding("a.b", beside) == "a_b"


def taken(*used: str) -> names.Taken:
    """An index of these names."""
    index = names.Taken()
    for name in used:
        index.add(name)
    return index


@given(st.text(alphabet="ab._-", max_size=6), st.text(alphabet="ab._-", max_size=6))
def test_names_collide_when_they_differ_in_nothing_else(one: str, other: str) -> None:
    same = len(one) == len(other) and all(
        a == b or {a, b} == {".", "_"} for a, b in zip(one, other, strict=True)
    )
    assert (names.collision_key(one) == names.collision_key(other)) == same
