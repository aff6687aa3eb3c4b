"""Idempotent producers: what is next, what is a duplicate, what is refused."""

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.producers import BATCHES_RETAINED, TRIED_MAX, Duplicate, Producers
from broker.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.headers import header

LAST_SEQUENCE = 2**31 - 1


def refused(producers: Producers, **fields: int) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        producers.check(header(**fields))
    return caught.value.code


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert Producers().check(header(producer=1, sequence=4711, epoch=3)) is None


def test_the_next_batch_continues_the_sequence() -> None:
    producers = Producers()
    producers.record(header(5, producer=1), 100, now_ms=0)
    assert producers.check(header(producer=1, sequence=5)) is None
    assert refused(producers, producer=1, sequence=6) == 45
    assert refused(producers, producer=1, sequence=4) == 45


def test_a_retry_gets_its_first_offset_and_time() -> None:
    producers = Producers()
    producers.record(header(5, producer=1, timestamp=77), 100, now_ms=0)
    producers.record(header(2, producer=1, sequence=5), 105, now_ms=0)
    again = producers.check(header(5, producer=1))
    assert again == Duplicate(base_offset=100, last_offset=104, timestamp=77)


def test_a_retry_with_other_bounds_is_no_duplicate() -> None:
    producers = Producers()
    producers.record(header(5, producer=1), 100, now_ms=0)
    assert refused(producers, count=4, producer=1) == 45


def test_five_batches_are_remembered_and_not_six() -> None:
    producers = Producers()
    for sequence in range(BATCHES_RETAINED + 1):
        producers.record(header(producer=1, sequence=sequence), sequence, now_ms=0)
    assert refused(producers, producer=1, sequence=0) == 45
    for sequence in range(1, BATCHES_RETAINED + 1):
        assert producers.check(header(producer=1, sequence=sequence)) is not None


def test_a_new_epoch_starts_at_zero_and_fences_the_old() -> None:
    producers = Producers()
    producers.record(header(3, producer=1, epoch=1), 0, now_ms=0)
    assert refused(producers, producer=1, epoch=2, sequence=3) == 45
    assert producers.check(header(producer=1, epoch=2)) is None
    producers.record(header(producer=1, epoch=2), 3, now_ms=0)
    old = refused(producers, count=3, producer=1, epoch=1)
    assert old == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.check(header(producer=1, epoch=2)) == Duplicate(3, 3, 1_000)


def test_sequences_wrap_around() -> None:
    producers = Producers()
    wrapping = header(4, producer=1, sequence=LAST_SEQUENCE - 1)
    assert wrapping.last_sequence == 1
    producers.record(wrapping, 10, now_ms=0)
    assert producers.check(wrapping) == Duplicate(10, 13, 1_000)
    assert producers.check(header(producer=1, sequence=2)) is None
    full = Producers()
    full.record(header(producer=1, sequence=LAST_SEQUENCE), 0, now_ms=0)
    assert full.check(header(producer=1, sequence=0)) is None


def test_an_abandoned_batch_may_come_again() -> None:
    producers = Producers()
    producers.record(header(5, producer=1), 100, now_ms=0)
    producers.record(header(5, producer=1, sequence=5), 105, now_ms=0)
    producers.abandon(105)
    assert producers.check(header(5, producer=1, sequence=5)) is None
    assert producers.check(header(5, producer=1)) == Duplicate(100, 104, 1_000)


def test_a_whole_pipeline_is_abandoned_in_order() -> None:
    producers = Producers()
    for sequence in range(8):
        producers.record(header(producer=1, sequence=sequence), sequence, now_ms=0)
    for offset in range(3, 8):  # the last five; the three before are evicted
        producers.abandon(offset, producer_id=1)
    assert producers.check(header(producer=1, sequence=3)) is None
    assert refused(producers, producer=1, sequence=4) == 45


def test_an_abandoned_batch_takes_no_place_of_one_that_is_remembered() -> None:
    producers = Producers()
    for sequence in range(6):
        producers.record(header(producer=1, sequence=sequence), sequence, now_ms=0)
    producers.abandon(5)
    producers.record(header(producer=1, sequence=5), 5, now_ms=0)
    for sequence in range(1, 6):
        retry = producers.check(header(producer=1, sequence=sequence))
        assert retry is not None
        assert retry.base_offset == sequence


def test_a_batch_abandoned_under_another_is_not_a_duplicate() -> None:
    producers = Producers()
    producers.record(header(producer=1), 0, now_ms=0)
    producers.record(header(producer=1, sequence=1), 1, now_ms=0)
    producers.abandon(0)
    assert refused(producers, producer=1, sequence=0) == 45
    assert producers.check(header(producer=1, sequence=2)) is None


def test_silence_is_measured_by_the_brokers_clock() -> None:
    producers = Producers()
    producers.record(header(producer=1, timestamp=5), 0, now_ms=1_000)
    producers.record(header(producer=2, timestamp=10**15), 1, now_ms=500)
    assert producers.expire(1_499, ttl_ms=1_000) == 0
    assert producers.expire(1_999, ttl_ms=1_000) == 1
    assert 1 in producers
    assert 2 not in producers


def test_a_forgotten_producer_is_unknown() -> None:
    producers = Producers()
    producers.record(header(producer=1), 0, now_ms=0)
    producers.forget(1)
    assert producers.check(header(producer=1, sequence=99)) is None


def test_a_producer_that_is_kept_is_never_silent_for_too_long() -> None:
    producers = Producers()
    producers.record(header(producer=1), 0, now_ms=0)
    producers.record(header(producer=2), 1, now_ms=0)
    assert producers.expire(1_000, ttl_ms=1_000, kept={2: 1}) == 1
    assert 2 in producers
    assert 1 not in producers


def test_a_marker_of_the_same_epoch_keeps_the_sequence() -> None:
    producers = Producers()
    producers.record(header(2, producer=1, epoch=3), 0, now_ms=0)
    producers.mark(1, 3, now_ms=5)
    assert producers.check(header(producer=1, epoch=3, sequence=2)) is None
    assert producers.check(header(2, producer=1, epoch=3)) == Duplicate(0, 1, 1_000)


def test_a_marker_of_a_new_epoch_fences_the_old_and_begins_anew() -> None:
    producers = Producers()
    producers.record(header(2, producer=1, epoch=3), 0, now_ms=0)
    producers.mark(1, 4, now_ms=5)
    fenced = refused(producers, producer=1, epoch=3, sequence=2)
    assert fenced == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(producers, producer=1, epoch=4, sequence=2) == 45
    assert producers.check(header(producer=1, epoch=4)) is None
    producers.mark(1, 2, now_ms=6)
    assert producers.check(header(producer=1, epoch=4)) is None


def test_a_producer_that_only_a_marker_tells_of_begins_with_its_first() -> None:
    producers = Producers()
    producers.mark(1, 3, now_ms=5)
    producers = Producers.restore(producers.snapshot())
    assert refused(producers, producer=1, epoch=3, sequence=7) == 45
    assert producers.check(header(producer=1, epoch=3)) is None


def test_what_was_tried_first_comes_first() -> None:
    producers = Producers()
    for epoch, sequence in ((3, 4), (3, 6), (3, 2)):
        producers.note_attempt(header(producer=1, epoch=epoch, sequence=sequence))
    assert refused(producers, producer=1, epoch=3, sequence=4) == 45
    for epoch, sequence in ((3, 2), (3, 1), (4, 9)):
        asked = header(producer=1, epoch=epoch, sequence=sequence)
        assert producers.check(asked) is None
    producers.note_attempt(header(producer=1, epoch=4, sequence=5))
    assert refused(producers, producer=1, epoch=4, sequence=6) == 45
    assert producers.check(header(producer=2, epoch=3, sequence=4)) is None
    producers.record(header(producer=1, epoch=4, sequence=5), 0, now_ms=0)
    producers.note_attempt(header(producer=1, epoch=4, sequence=0))
    assert producers.check(header(producer=1, epoch=4, sequence=6)) is None
    producers.forget(1)
    assert producers.check(header(producer=1, epoch=4, sequence=6)) is None


def test_no_more_attempts_are_remembered_than_there_is_room_for() -> None:
    producers = Producers()
    for producer in range(TRIED_MAX + 1):
        producers.note_attempt(header(producer=producer))
    assert producers.check(header(producer=0, sequence=1)) is None
    for producer in (1, TRIED_MAX):
        assert refused(producers, producer=producer, sequence=1) == 45


def test_of_whom_the_log_may_have_forgotten_records_may_go_on_anywhere() -> None:
    producers = Producers(has_forgotten=True)
    producers = Producers.restore(producers.snapshot())  # nor does the next start know
    producers.mark(1, 3, now_ms=5)
    producers = Producers.restore(producers.snapshot())
    assert producers.check(header(producer=1, epoch=3, sequence=7)) is None
    fenced = refused(producers, producer=1, epoch=2, sequence=7)
    assert fenced == ErrorCode.INVALID_PRODUCER_EPOCH
    producers.record(header(producer=1, epoch=3, sequence=7), 0, now_ms=6)
    assert refused(producers, producer=1, epoch=3, sequence=9) == 45


@pytest.mark.parametrize(
    ("epoch", "bumps", "passes"),
    [
        (2, False, False),
        (3, False, True),
        (3, True, False),
        (4, True, True),
    ],
)
def test_a_marker_is_not_older_than_what_it_ends(epoch, bumps, passes) -> None:
    producers = Producers()
    producers.check_marker(1, 0, bumps=bumps)
    producers.record(header(producer=1, epoch=3), 0, now_ms=0)
    if passes:
        producers.check_marker(1, epoch, bumps=bumps)
        return
    with pytest.raises(KafkaError) as caught:
        producers.check_marker(1, epoch, bumps=bumps)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_snapshot_knows_of_a_marker_since_the_last() -> None:
    producers = Producers()
    producers.record(header(producer=1), 0, now_ms=0)
    producers.snapshot()
    producers.mark(1, 1, now_ms=1)
    again = Producers.restore(producers.snapshot())
    assert refused(again, producer=1, sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_replay_takes_up_only_what_is_new() -> None:
    producers = Producers()
    producers.record(header(2, producer=1), 0, now_ms=0)
    producers.replay(header(2, producer=1, base=0), 0)
    producers.replay(header(2, producer=1, base=2, sequence=2), 0)
    assert producers.check(header(2, producer=1, sequence=2)) == Duplicate(2, 3, 1_000)
    assert producers.check(header(producer=1, sequence=4)) is None


@pytest.mark.parametrize("damage", [b"", b"\x03" + bytes(4), b"\x01\0\0\0\1", b"tail"])
def test_a_damaged_snapshot_is_refused(damage: bytes) -> None:
    payload = Producers().snapshot() + damage if damage == b"tail" else damage
    with pytest.raises(ValueError):
        Producers.restore(payload)


class EveryBatch:
    """The naive model: remembers everything and searches it."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, int, int, int]]] = {}

    def check(self, producer: int, epoch: int, first: int, last: int) -> object:
        all_batches = self.batches.get(producer, [])
        if not all_batches:
            return None
        current = [b for b in all_batches if b[0] == all_batches[-1][0]]
        for _, one, other, offset in current[-5:]:
            if (epoch, first, last) == (current[0][0], one, other):
                return offset
        if epoch < current[0][0]:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        wanted = current[-1][2] + 1 if epoch == current[0][0] else 0
        return None if first == wanted else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(0, 2), st.integers(0, 12), st.integers(1, 3)
        ),
        max_size=60,
    ),
    st.integers(0, 60),
)
def test_agrees_with_a_list_of_everything(
    batches: list[tuple[int, int, int, int]], restart_at: int
) -> None:
    producers, model = Producers(), EveryBatch()
    for offset, (producer, epoch, first, count) in enumerate(batches):
        if offset == restart_at:
            producers = Producers.restore(producers.snapshot())
        one = header(count, producer=producer, epoch=epoch, sequence=first)
        wanted = model.check(producer, epoch, first, first + count - 1)
        if isinstance(wanted, ErrorCode):
            with pytest.raises(KafkaError) as caught:
                producers.check(one)
            assert caught.value.code == wanted
            continue
        answer = producers.check(one)
        assert (answer.base_offset if answer else None) == wanted
        if answer is None:
            producers.record(one, offset, now_ms=0)
            model.batches.setdefault(producer, []).append(
                (epoch, first, first + count - 1, offset)
            )


CHANGES = st.sampled_from(["record", "refuse", "forget", "expire", "sync"])


@given(st.lists(st.tuples(CHANGES, st.integers(0, 2)), max_size=30))
def test_a_snapshot_that_is_given_again_is_the_one_that_would_be_made(
    changes: list[tuple[str, int]],
) -> None:
    """Also when the batches in flight that it lacks became durable since."""
    producers, sequences, offset, durable = Producers(), [0, 0, 0], 0, 0
    for now_ms, (change, producer) in enumerate(changes):
        match change:
            case "record":
                sequence = sequences[producer]
                made = header(producer=producer, sequence=sequence)
                producers.record(made, offset, now_ms)
                sequences[producer] += 1
                offset += 1
            case "refuse" if offset > durable:
                producers.abandon(offset - 1)
            case "forget":
                producers.forget(producer)
            case "expire":
                producers.expire(now_ms, 3)
            case "sync":
                durable = min(durable + producer, offset)
        anew = deepcopy(producers)
        anew._packed = None
        given_again = producers.snapshot(durable)
        assert given_again == anew.snapshot(durable)
        assert Producers.restore(given_again).snapshot() == given_again


def test_a_snapshot_costs_again_what_changed_or_was_in_flight() -> None:
    producers = Producers()
    producers.record(header(producer=1), 0, 100)
    producers.snapshot(durable=0)
    assert producers.stale == 1  # its batch may be refused
    producers.snapshot(durable=1)
    assert producers.stale == 0
    producers.mark(2, 5, 120)
    assert producers.stale == 2


def test_those_who_are_active_are_told_by_what_is_durable_of_them() -> None:
    producers = Producers()
    producers.record(header(producer=1), 0, 100)
    producers.record(header(producer=1, sequence=1), 1, 110)
    producers.mark(2, 5, 120)
    producers.mark(3, 0, 130)
    assert list(producers.active(2)) == [
        (1, 0, 1, 110),
        (2, 5, -1, 120),
        (3, 0, -1, 130),
    ]
    looking = producers.active(1)
    assert next(looking) == (1, 0, 0, 110)
    producers.forget(2)
    assert list(looking) == [(3, 0, -1, 130)]


def test_what_was_refused_before_a_marker_is_over_with_it() -> None:
    producers = Producers()
    producers.note_attempt(header(producer=1))
    producers.mark(1, 0, now_ms=0)
    producers.forget(1)
    assert producers.check(header(producer=1, sequence=5)) is None
