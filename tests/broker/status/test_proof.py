"""A proof is good once, for what it was made of, at its time, and tells no secret."""

import pytest

from broker.status.proof import SCHEME, SEEN_MAX, WINDOW_MS, Proofs, proof

SECRET = "s" * 64
NOW_MS = 1_900_000_000_000


def made(number="n1", *, secret=SECRET, method="GET", path="/some", at_ms=NOW_MS):
    return proof(secret, method, path, at_ms, number)


@pytest.fixture
def proofs():
    return Proofs(SECRET, since_ms=NOW_MS - 10 * WINDOW_MS)


def test_who_has_the_secret_is_known_and_does_not_send_it(proofs):
    assert SECRET not in made()
    assert proofs.take(made(), "GET", "/some", NOW_MS)


def test_what_was_heard_on_the_way_is_good_for_nothing_more(proofs):
    assert proofs.take(made(), "GET", "/some", NOW_MS)
    assert not proofs.take(made(), "GET", "/some", NOW_MS)
    assert not proofs.take(made(), "GET", "/some", NOW_MS + WINDOW_MS)
    assert proofs.take(made("n2"), "GET", "/some", NOW_MS)


def test_what_was_sent_to_somebody_else_while_the_part_was_away_is_no_proof():
    before = made(at_ms=NOW_MS - 1)
    assert not Proofs(SECRET, since_ms=NOW_MS).take(before, "GET", "/some", NOW_MS)
    assert Proofs(SECRET, since_ms=NOW_MS).take(made(), "GET", "/some", NOW_MS)


@pytest.mark.parametrize(
    ("given", "method", "path"),
    [
        (made(), "PUT", "/some"),
        (made(), "GET", "/other"),
        (made(secret="x" * 64), "GET", "/some"),
        (made().replace("n1", "n2"), "GET", "/some"),
        (made().replace(str(NOW_MS), str(NOW_MS + 1)), "GET", "/some"),
        (made().replace(SCHEME, "Bearer"), "GET", "/some"),
        (made().replace(SCHEME, SCHEME.lower()), "GET", "/some"),
        (made()[:-1], "GET", "/some"),
        (made() + "0", "GET", "/some"),
        (made() + " 0", "GET", "/some"),
        (made()[:-1] + "\xff", "GET", "/some"),
        (made().replace(str(NOW_MS), "9" * 5_000), "GET", "/some"),
        (made().replace(str(NOW_MS), "-1"), "GET", "/some"),
        (made().replace(str(NOW_MS), "\xb2" * 13), "GET", "/some"),
        (f"Bearer {SECRET}", "GET", "/some"),
        (SECRET, "GET", "/some"),
        ("", "GET", "/some"),
        ("   ", "GET", "/some"),
    ],
)
def test_anything_else_is_none(proofs, given, method, path):
    assert not proofs.take(given, method, path, NOW_MS)
    assert proofs.take(made(), "GET", "/some", NOW_MS)  # it used nothing up


@pytest.mark.parametrize("off_ms", [-WINDOW_MS - 1, WINDOW_MS + 1])
def test_its_time_is_not_far_from_ours(proofs, off_ms):
    assert not proofs.take(made(at_ms=NOW_MS + off_ms), "GET", "/some", NOW_MS)
    nearer = made(at_ms=NOW_MS + off_ms // 2)
    assert proofs.take(nearer, "GET", "/some", NOW_MS)


def test_what_is_remembered_is_bounded_and_forgotten_when_it_is_too_old_anyway(
    proofs, monkeypatch
):
    monkeypatch.setattr("broker.status.proof.SEEN_MAX", 3)
    assert SEEN_MAX > 3
    for number in ("a", "b", "c"):
        assert proofs.take(made(number), "GET", "/some", NOW_MS)
    assert not proofs.take(made("d"), "GET", "/some", NOW_MS)
    later_ms = NOW_MS + 2 * WINDOW_MS + 1
    assert proofs.take(made("d", at_ms=later_ms), "GET", "/some", later_ms)
    assert not proofs.take(made("a"), "GET", "/some", later_ms)
