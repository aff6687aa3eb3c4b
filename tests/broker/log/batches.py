"""Logs with batches in them, and what a start finds of them, for tests of the log."""

from types import SimpleNamespace

import numpy as np

from broker.log.partition import PartitionLog
from tests.broker.log.headers import header

NOW = 1_700_000_000_000


def admitted(log: PartitionLog, count: int = 1, **fields: int) -> int:
    answer = log.admit(header(count, **fields), NOW)
    assert isinstance(answer, int)
    return answer


def committed(log: PartitionLog, base: int, count: int = 1) -> None:
    log.commit(base, base + count - 1, 1_000, location=base + 1, length=100)


def columns_of(log: PartitionLog) -> SimpleNamespace:
    entries = [np.array(column) for column in zip(*log.index, strict=True)]
    names = ("base", "last", "max_ts", "location", "length")
    return SimpleNamespace(**dict(zip(names, entries, strict=False)))


def without(log: PartitionLog, *at: int) -> SimpleNamespace:
    """The columns of a start that does not find the batches of these numbers."""
    columns = columns_of(log)
    for name, column in vars(columns).items():
        setattr(columns, name, np.delete(column, at))
    return columns


def four_batches() -> PartitionLog:
    """Of ten offsets each, every one in a segment of its own."""
    log = PartitionLog()
    for number in range(4):
        base = admitted(log, 10)
        log.commit(base, base + 9, 1_000, location=(number + 1) << 32, length=100)
    return log
