"""A lease has one holder at a time, and an epoch that grows with each."""

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from broker.catalog import leases, schema
from broker.catalog.catalog import Catalog
from broker.catalog.engine import open_engine

TTL = 100


def test_one_has_it_and_the_other_waits(catalog: Catalog) -> None:
    assert catalog.read(lambda c: leases.get(c, "x")) is None
    assert catalog.change(lambda c: leases.acquire(c, "x", "a", 0, TTL)) == 1
    assert catalog.change(lambda c: leases.acquire(c, "x", "b", 99, TTL)) is None
    assert catalog.change(lambda c: leases.acquire(c, "y", "b", 99, TTL)) == 1
    assert catalog.change(lambda c: leases.acquire(c, "x", "b", 100, TTL)) == 2
    assert catalog.read(lambda c: leases.get(c, "x")) == ("b", 2, 200)


def test_acquiring_again_keeps_the_epoch_while_it_lasts(catalog: Catalog) -> None:
    catalog.change(lambda c: leases.acquire(c, "x", "a", 0, TTL))
    assert catalog.change(lambda c: leases.acquire(c, "x", "a", 90, TTL)) == 1
    assert catalog.read(lambda c: leases.get(c, "x")) == ("a", 1, 190)
    assert catalog.change(lambda c: leases.acquire(c, "x", "a", 190, TTL)) == 2


def test_releasing_needs_no_waiting(catalog: Catalog) -> None:
    catalog.change(lambda c: leases.acquire(c, "x", "a", 0, TTL))
    assert not catalog.change(lambda c: leases.release(c, "x", "b", 1))
    assert catalog.change(lambda c: leases.release(c, "x", "a", 1))
    assert catalog.change(lambda c: leases.acquire(c, "x", "b", 1, TTL)) == 2
    assert not catalog.change(lambda c: leases.release(c, "x", "a", 1))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("au"), st.sampled_from("xyz"), st.integers(0, 60)),
        max_size=25,
    )
)
def test_no_two_ever_believe_they_hold_it(steps: list[tuple[str, str, int]]) -> None:
    """``believed``: holder -> (epoch, until): what each was told, as each sees it."""
    engine = open_engine(":memory:")
    believed: dict[str, tuple[int, int]] = {}
    now, epochs = 0, [0]
    with engine.connect() as connection, connection.begin():
        schema.metadata.create_all(connection)
        for verb, holder, pause in steps:
            now += pause
            told = act(connection, verb, holder, now, believed.get(holder, (0, 0))[0])
            believed.pop(holder, None)
            if told:
                believed[holder] = (told, now + TTL)
                assert told >= epochs[-1]
                epochs.append(told)
            holding = [h for h, (_, until) in believed.items() if until > now]
            assert len(holding) <= 1
    engine.dispose()


def act(
    connection: Connection, verb: str, holder: str, now: int, epoch: int
) -> int | None:
    if verb == "a":
        return leases.acquire(connection, "l", holder, now, TTL)
    leases.release(connection, "l", holder, epoch)
    return None
