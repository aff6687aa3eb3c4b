"""The roster's counts, beside a naive count over all members."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.groups.members import (
    ASSIGNED_BYTES,
    JOINED_BYTES,
    METADATA_BYTES,
    PENDING_BYTES,
    Member,
    Roster,
)


def member(name: str, *protocols: str, instance_id: str | None = None) -> Member:
    offered = tuple((p, p.encode()) for p in protocols or ("range",))
    return Member(name, instance_id, "", "", 10, 20, offered)


def roster(*members: Member) -> Roster:
    made = Roster()
    for one in members:
        made.put(one)
    return made


def test_the_vote_goes_to_what_all_support_and_most_prefer():
    voters = roster(
        member("a", "only-a", "range", "sticky"),
        member("b", "sticky", "range"),
        member("c", "sticky", "range"),
    )
    assert voters.vote() == "sticky"


def test_a_tie_goes_to_the_first_vote():
    assert roster(member("a", "x", "y"), member("b", "y", "x")).vote() == "x"


def test_who_shares_nothing_cannot_vote():
    with pytest.raises(AssertionError):
        roster(member("a", "x"), member("b", "y")).vote()
    with pytest.raises(AssertionError):
        Roster().vote()


def test_metadata_is_per_protocol_and_empty_for_an_unknown_one():
    assert member("a", "x", "y").metadata("y") == b"y"
    assert member("a", "x").metadata("z") == b""


def test_a_protocol_named_twice_counts_once():
    voters = roster(member("a", "x", "x"), member("b", "x"))
    assert voters.supports_any((("x", b""),))
    assert voters.vote() == "x"


def test_a_static_name_belongs_to_one_member():
    one = member("a", instance_id="i")
    static = roster(one)
    assert (static.static_id("i"), static.static_id(None)) == ("a", None)
    with pytest.raises(AssertionError):
        static.put(member("b", instance_id="i"))
    static.remove(one.member_id)
    assert static.static_id("i") is None


def test_all_joined_means_members_and_pending_ids():
    one = member("a")
    waiting = roster(one)
    waiting.pending.add("b")
    waiting.put(one._replace(join_ticket="ticket"))
    assert not waiting.all_joined()
    waiting.pending.discard("b")
    assert waiting.all_joined()
    waiting.put(one)
    assert not waiting.all_joined()


def test_the_most_patient_member_sets_the_timeout():
    patient = member("b")._replace(rebalance_timeout_ms=99)
    assert roster(member("a"), patient).rebalance_timeout_ms() == 99
    assert Roster().rebalance_timeout_ms() == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "park", "answer", "change"]),
        st.sampled_from("abc"),
        st.lists(st.sampled_from("xyz"), min_size=1, max_size=3),
    ),
    max_size=25,
)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_the_counts_agree_with_a_count_over_all(steps):
    kept, naive = Roster(), {}
    for verb, name, protocols in steps:
        one = naive.get(name)
        offered = tuple((p, b"") for p in protocols)
        if one is None and verb == "add":
            naive[name] = one = member(name, *protocols)
            kept.put(one)
        elif one is not None and verb == "remove":
            del naive[name]
            kept.remove(name)
        elif one is not None and verb in ("park", "answer"):
            ticket = "t" if verb == "park" else None
            naive[name] = one._replace(join_ticket=ticket)
            kept.put(naive[name])
        elif one is not None and verb == "change":
            naive[name] = one._replace(protocols=offered)
            kept.put(naive[name])
        copied = kept.copy()
        assert copied == kept
        copied.put(member("another"))
        assert copied != kept
        joining = [m for m in naive.values() if m.join_ticket is not None]
        assert kept.joining == len(joining)
        assert list(kept) == list(naive.values())
        sizes = (len(n) + len(m) for one in kept for n, m in one.protocols)
        assert kept.metadata_bytes == sum(sizes)
        assert kept.first_id() == next(iter(naive), "")
        assert kept.supports_any(offered) == any(
            all(p in dict(m.protocols) for m in naive.values()) for p in protocols
        )


def test_what_members_and_given_ids_take_is_counted_and_given_back():
    one, growing = member("a"), roster()
    growing.put(one)
    alone = growing.held_bytes
    assert alone == one.held_bytes == JOINED_BYTES + len("a")
    growing.put(one._replace(join_ticket="ticket"))
    assert growing.held_bytes == alone
    named = METADATA_BYTES - len("range")
    growing.put(
        one._replace(
            assignment=bytes(ASSIGNED_BYTES), protocols=(("range", bytes(named)),)
        )
    )
    assert growing.held_bytes == alone
    given = bytes(ASSIGNED_BYTES + 1000)
    growing.put(one._replace(assignment=given))
    said = (("range", bytes(named + 2)),)
    growing.put(one._replace(assignment=given, protocols=said))
    assert growing.held_bytes == alone + 1000 + 2
    growing.expect("pending")
    growing.expect_no_more("nobody")
    assert (
        growing.copy().held_bytes
        == growing.held_bytes
        == (alone + 1000 + 2 + PENDING_BYTES + len("pending"))
    )
    growing.expect_no_more("pending")
    growing.remove("a")
    assert growing.held_bytes == 0
