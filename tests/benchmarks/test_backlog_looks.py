"""A look at what waits costs no more for the segments that stay as they were."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from broker.ids import TopicPartition
from broker.storage.columns import ROW_TYPE, EntryColumns, group
from jobs.backlog import Backlog

PARTITIONS, EACH = 200, 2


class GrowingStore:
    """Segments with batches of many partitions; the last one grows."""

    address, damage, missing = "", list[str](), set[int]()

    def __init__(self, count: int) -> None:
        self.count, self.added = count, 0

    def live(self) -> list[Any]:
        sealed = [SimpleNamespace(sequence=n, sealed=True) for n in range(self.count)]
        last = SimpleNamespace(sequence=self.count, sealed=False, added=self.added)
        return [*sealed, last]

    def columns(self, sequence: int) -> dict[TopicPartition, EntryColumns]:
        rows = np.zeros(PARTITIONS * EACH, ROW_TYPE)
        number = np.arange(len(rows))
        rows["topic"], rows["partition"] = 1, number % PARTITIONS
        rows["base"] = sequence * EACH + number // PARTITIONS
        rows["position"], rows["length"] = number * 100, 99
        if sequence == self.count:
            rows = rows[: PARTITIONS + self.added]
        return group(rows, sequence)

    def holes(self, _: int) -> list[tuple[int, int]]:
        return []

    def forget_damaged(self) -> set[int]:
        return set()

    @contextmanager
    def opened(self, _: int) -> Iterator[Any]:
        yield SimpleNamespace(kinds=lambda *_: None, check_current=lambda: None)


def look_s(segments: int) -> float:
    """Processor seconds of a look after the last segment grew; the least of some."""
    store = GrowingStore(segments)
    backlog = Backlog(store)  # type: ignore[arg-type]
    backlog.refresh(0)
    found = []
    for store.added in range(1, 6):
        began = process_time()
        backlog.refresh(store.added)
        pending = backlog.pending(dict.fromkeys(backlog.ends, 1), {1})
        found.append(process_time() - began)
    assert len(pending) == PARTITIONS
    waiting = sum(one.bytes for one in pending)
    batches = PARTITIONS * (segments * EACH - 1) + PARTITIONS + store.added
    assert waiting == 99 * batches
    return min(found)


@pytest.mark.timeout(300)
def test_ten_times_as_many_segments_are_looked_at_in_less_than_thrice_the_time() -> (
    None
):
    assert look_s(400) < 3 * look_s(40)
