"""What was sent to a log and what it said, and whether what is left of it agrees."""

import json
from dataclasses import dataclass, field

from broker.storage.entry import Append
from tests.broker.storage.driver import Driver, held
from tests.support.files import ForgetfulFiles

Key = tuple[int, int, int]
SMALL_SEGMENT = 8 << 10


@dataclass
class Told:
    """What was sent to the log and what the log said, over all of its lives."""

    sent: dict[Key, list[bytes]] = field(default_factory=dict)
    acknowledged: dict[Key, bytes] = field(default_factory=dict)
    released: set[Key] = field(default_factory=set)

    def send(self, driver: Driver, size: int, partition: int) -> Append:
        one = driver.append(size, partition, seed=len(self.sent))
        self.sent.setdefault(key_of(one), []).append(bytes(one.batch))
        return one

    def listen(self, driver: Driver) -> None:
        for one in driver.finished:
            if one.error is None:
                self.acknowledged[key_of(one)] = bytes(one.batch)
        driver.finished.clear()


def key_of(one: Append) -> Key:
    return one.topic_number, one.partition, one.base_offset


def noted(told: Told) -> bytes:
    return json.dumps(sorted(told.acknowledged)).encode()


def go_on(driver: Driver) -> None:
    for key, columns in driver.recovery.columns.items():
        driver.next_offset[key] = int(columns.last[-1]) + 1
    payload = json.loads(driver.recovery.payload or b"[]")
    for topic, partition, base in payload:
        key = (topic, partition)
        driver.next_offset[key] = max(driver.next_offset.get(key, 0), base + 1)


def check(files: ForgetfulFiles, told: Told) -> None:
    """Open the log on what is left of it and compare."""
    driver = Driver(files, segment_bytes=SMALL_SEGMENT)
    try:
        recovery = driver.recovery
        assert recovery.damage == []
        check_found(driver, told)
        _check_replay(driver, told)
    finally:
        driver.close()


def check_found(driver: Driver, told: Told) -> None:
    """What was acknowledged and not released is there, once, and nothing unheard of."""
    columns = driver.recovery.columns
    there = held(driver.recovery, driver.wal)
    found = {
        (*key, int(base)): data
        for key, some in columns.items()
        for base, data in zip(some.base, there[key], strict=True)
    }
    for key, data in told.acknowledged.items():
        if key not in told.released:
            assert found.get(key) == data, f"acknowledged {key} is not there"
    for key, data in found.items():
        assert data in told.sent.get(key, []), f"{key} was never sent"
    for part in columns.values():
        assert part.base.tolist() == sorted(set(part.base.tolist()))


def _check_replay(driver: Driver, told: Told) -> None:
    payload = json.loads(driver.recovery.payload or b"[]")
    known = {tuple(key) for key in payload}
    known |= {(t, p, h.base_offset) for t, p, h, *_ in driver.recovery.replay}
    assert told.acknowledged.keys() <= known
