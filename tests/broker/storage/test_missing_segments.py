"""Which numbers belong to segments that should be there."""

import pytest

from broker.storage.committed_position import CommittedPosition
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.manifest import Manifest
from broker.storage.missing_segments import (
    lost_texts,
    missing_segments,
    runs_of,
    unexplained_numbers,
)

MANIFEST = Manifest(known=8, live=frozenset({4, 7, 8}), spaced_from=2)
SOMETHING = HEADER_BLOCK_BYTES + 1


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        ({4, 7, 8}, set()),
        ({4, 8}, {7}),
        ({4, 7, 8, 14}, {10, 12}),  # each was begun, and no carried one is expected
        ({2, 4, 6, 7, 8}, set()),
        (set(), {4, 7, 8}),
    ],
)
def test_what_is_listed_and_what_was_begun_since_is_there(
    present: set[int], missing: set[int]
) -> None:
    assert missing_segments(MANIFEST, None, present) == missing


@pytest.mark.parametrize(
    ("noted", "missing"),
    [
        (CommittedPosition(10, SOMETHING), {10}),
        (CommittedPosition(10, SOMETHING, final=True), {10}),
        (CommittedPosition(10, HEADER_BLOCK_BYTES), set()),  # nothing in it was durable
        (CommittedPosition(14, SOMETHING), {10, 12, 14}),  # they were sealed before
        (CommittedPosition(14, HEADER_BLOCK_BYTES), {10, 12}),
        (CommittedPosition(14, SOMETHING, synced=False), {10, 12}),
        (CommittedPosition(6, SOMETHING), set()),  # it was released
        (CommittedPosition(8, SOMETHING), set()),
    ],
)
def test_what_the_position_says_was_durable_is_there(
    noted: CommittedPosition, missing: set[int]
) -> None:
    assert missing_segments(MANIFEST, noted, {4, 7, 8}) == missing


def test_without_a_manifest_the_last_one_is_known_from_the_position() -> None:
    noted = CommittedPosition(10, SOMETHING)
    assert missing_segments(Manifest(), noted, {2, 8}) == {10}
    assert missing_segments(Manifest(), None, {2, 8}) == set()


@pytest.mark.parametrize(
    ("present", "numbers"),
    [
        ((), set()),
        ((4,), set()),
        ((4, 6, 8), set()),
        ((4, 5, 6), set()),
        ((4, 8), {6}),
        ((4, 7, 8), {6}),
        ((4, 12, 14, 20), {6, 16}),
        ((3, 5), {4}),
    ],
)
def test_of_the_numbers_between_two_the_first_stands_for_all(
    present: tuple[int, ...], numbers: set[int]
) -> None:
    last = CommittedPosition(max(present, default=0), SOMETHING)
    assert unexplained_numbers(present, last) == numbers


@pytest.mark.parametrize(
    ("noted", "numbers"),
    [
        (CommittedPosition(8, SOMETHING), set()),
        (CommittedPosition(6, SOMETHING), set()),  # older than the truth
        (CommittedPosition(14, SOMETHING), {10}),
        (CommittedPosition(10, SOMETHING, synced=False), {10}),
        (CommittedPosition(10, HEADER_BLOCK_BYTES), {10}),
        (None, {10}),  # nothing tells
    ],
)
def test_behind_the_last_the_position_tells_whether_one_was_begun(
    noted: CommittedPosition | None, numbers: set[int]
) -> None:
    assert unexplained_numbers((6, 8), noted) == numbers
    assert unexplained_numbers((), noted) == set()


@pytest.mark.parametrize(
    ("missing", "present", "runs"),
    [
        ((), {4}, []),
        ((6,), {4, 8}, [(6, 6)]),
        ((10, 6, 8), {4, 12}, [(6, 10)]),
        ((6, 8, 10), {7}, [(6, 6), (8, 10)]),  # a carried one lies between
        ((5, 6, 7), set(), [(5, 7)]),
        ((6, 10), set(), [(6, 6), (10, 10)]),  # 8 was released
    ],
)
def test_missing_ones_that_follow_each_other_are_one_run(
    missing: tuple[int, ...], present: set[int], runs: list[tuple[int, int]]
) -> None:
    assert runs_of(missing, present) == runs


def test_a_run_of_lost_ones_is_one_line() -> None:
    manifest = Manifest(known=8, live=frozenset({4, 6, 8}), payload=b"", spaced_from=2)
    older = ", or the checkpoint is an older copy"
    assert lost_texts({4, 6, *range(10, 200_000, 2)}, {8}, manifest) == [
        "segments 4 to 6 are lost: their files are missing",
        f"segments 10 to 199998 are lost: their files are missing{older}",
    ]
    assert lost_texts({8, 10, 12}, {4, 6, 14}, manifest) == [
        f"segments 8 to 12 are lost: their files are missing{older}"
    ]
    assert lost_texts({10}, {8}, manifest) == [
        "segment 10 is lost: its file is missing"
    ]
    assert lost_texts({4, 6}, {8}, Manifest(known=8)) == [
        "segments 4 to 6 are lost or were released: their files are missing, and there "
        "is no checkpoint yet that would tell"
    ]
