"""The four offsets keep their order, whatever they are told."""

import pytest

from broker.log.offsets import LogOffsets


def test_a_new_log_is_empty_at_its_start() -> None:
    offsets = LogOffsets(7)
    assert (offsets.start, offsets.stable, offsets.durable, offsets.next) == (7,) * 4
    assert LogOffsets().next == 0


def test_a_restored_log_goes_on_at_its_durable_end() -> None:
    offsets = LogOffsets(7, 20)
    assert (offsets.start, offsets.stable, offsets.durable, offsets.next) == (
        7, 20, 20, 20,
    )  # fmt: skip


def test_several_move_together() -> None:
    offsets = LogOffsets()
    offsets.move(next_offset=10)
    offsets.move(durable=8, stable=6, start=5)
    assert (offsets.start, offsets.stable, offsets.durable, offsets.next) == (
        5, 6, 8, 10,
    )  # fmt: skip


@pytest.mark.parametrize(
    "move",
    [
        {"start": 7},  # beyond stable
        {"stable": 9},  # beyond durable
        {"durable": 11},  # beyond next
        {"next_offset": 7},  # below durable
        {"start": 1},  # back
        {"stable": 5},
        {"durable": 7},
    ],
)
def test_a_broken_order_is_our_own_mistake(move: dict[str, int]) -> None:
    offsets = LogOffsets(2, 6)
    offsets.move(next_offset=10)
    offsets.move(durable=8)
    with pytest.raises(AssertionError):
        offsets.move(**move)


def test_offsets_are_given_away_and_become_durable_in_order() -> None:
    offsets = LogOffsets(2, 6)
    offsets.assign(9)
    offsets.advance(8)
    assert (offsets.durable, offsets.stable, offsets.next) == (8, 8, 9)
    for wrong in (8, 10):
        with pytest.raises(AssertionError):
            offsets.advance(wrong)
    with pytest.raises(AssertionError):
        offsets.assign(9)


def test_a_start_sets_what_is_stable_back_and_nobody_else_does() -> None:
    offsets = LogOffsets(3, 9)
    offsets.restore_stable(5)
    assert (offsets.stable, offsets.durable) == (5, 9)
    offsets.restore_stable(7)
    assert offsets.stable == 7
    for wrong in (2, 10):
        with pytest.raises(AssertionError):
            offsets.restore_stable(wrong)
