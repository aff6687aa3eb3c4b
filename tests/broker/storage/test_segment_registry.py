"""What becomes of a segment, step by step, and who still sees it."""

import random
from pathlib import Path

import pytest

from broker.storage.active_segment import ActiveSegment
from broker.storage.segment import SealedSegment, SegmentInfo, Slot, StaleSegment
from broker.storage.segment_registry import SegmentRegistry
from tests.support.files import ForgetfulFiles


def a_slot(sequence: int) -> Slot:
    return Slot(sequence, Path(), sequence, 1 << 20)


def active(sequence: int) -> ActiveSegment:
    return ActiveSegment(ForgetfulFiles(), a_slot(sequence), sequence, 0)


def sealed(sequence: int, *, carried: bool = False) -> SealedSegment:
    info = SegmentInfo(sequence, True, 5000, {(1, 0): (0, sequence)})
    return SealedSegment(a_slot(sequence), info, carried)


def numbers(segments: list[SealedSegment] | list[SealedSegment | ActiveSegment]):
    return [each.sequence for each in segments]


def test_a_segment_is_written_then_sealed_then_released_then_gone() -> None:
    registry = SegmentRegistry([sealed(2)])
    registry.begin(active(4))
    assert isinstance(registry.get(4), ActiveSegment)
    whole = sealed(4)
    registry.sealed(whole)
    assert registry.readable(4) is registry.get(4) is whole
    registry.release(4)
    assert registry.readable(4) is None
    assert registry.get(4) is whole
    assert numbers(registry.live()) == [2]
    assert registry.released() == [whole]
    assert numbers(registry.all()) == [2, 4]
    registry.remove(4)
    assert registry.get(4) is None
    assert registry.released() == []
    assert numbers(registry.all()) == [2]


def test_what_is_released_or_not_there_cannot_be_released() -> None:
    registry = SegmentRegistry([sealed(2)])
    registry.release(2)
    for sequence in (2, 4):
        with pytest.raises(StaleSegment):
            registry.release(sequence)
    registry.remove(2)
    with pytest.raises(StaleSegment):
        registry.release(2)


def test_what_is_written_is_needed() -> None:
    registry = SegmentRegistry()
    registry.begin(active(2))
    with pytest.raises(AssertionError):
        registry.release(2)
    assert numbers(registry.live()) == [2]


def test_what_was_replaced_is_read_until_it_is_released_and_listed_no_more() -> None:
    registry = SegmentRegistry([sealed(2), sealed(4), sealed(6)])
    registry.replace([2, 4], sealed(5, carried=True))
    assert numbers(registry.live()) == [5, 6]
    assert registry.readable(2) is not None
    assert [registry.is_replaced(n) for n in (2, 4, 5, 6)] == [True, True, False, False]
    assert registry.listed(6) == {5, 6}
    registry.release(2)
    assert registry.listed(6) == {5, 6}
    registry.remove(2)
    assert not registry.is_replaced(2)


def test_a_manifest_lists_what_is_durable_and_not_removed() -> None:
    registry = SegmentRegistry([sealed(2), sealed(4)])
    registry.begin(active(6))
    registry.replace([2], sealed(3, carried=True))
    registry.release(4)
    assert registry.listed(6) == {3, 4, 6}
    assert registry.listed(4) == {3, 4}  # nothing of the last one is durable
    assert registry.listed(0) == {3}


def test_a_damaged_one_is_another_value_and_otherwise_the_same() -> None:
    before = sealed(2)
    registry = SegmentRegistry([before])
    registry.release(2)
    registry.mark_damaged(2)
    [after] = registry.released()
    assert before.info.intact
    assert not after.info.intact
    assert after.slot is before.slot
    assert after.info.ranges == before.info.ranges


@pytest.mark.parametrize("seed", range(5))
def test_in_any_order_of_steps_each_is_in_one_place(seed: int) -> None:
    """Beside a naive model: what happened to each, in sets."""
    chance, registry = random.Random(seed), SegmentRegistry()
    there: set[int] = set()
    released: set[int] = set()
    replaced: set[int] = set()
    for number in range(2, 400, 2):
        registry.begin(active(number))
        registry.sealed(sealed(number))
        there.add(number)
        for one in sorted(there - released):
            if chance.random() < 0.2:
                registry.release(one)
                released.add(one)
        run = [one for one in sorted(there - replaced) if chance.random() < 0.05]
        if run and number - 1 not in there:
            registry.replace(run, sealed(number - 1, carried=True))
            there.add(number - 1)
            replaced.update(run)
        for one in sorted(there & released):
            if chance.random() < 0.3:
                registry.remove(one)
                there.discard(one)
        released &= there
        replaced &= there
        assert numbers(registry.live()) == sorted(there - released - replaced)
        assert numbers(registry.released()) == sorted(released)
        assert registry.listed(number) == there - replaced
        readable = {one for one in there if registry.readable(one) is not None}
        assert readable == there - released
