"""A transaction that stays open holds its table back: it is told whose, and ended."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from broker.status.file import read
from broker.status.schema import BrokerStatus, OpenTransaction
from tests.support.confluent import create
from tests.support.patience import IDLE_S, wait_until
from tests.support.process import BrokerPart, lakelog
from tests.support.transactions import LEVELS, commit, transactional, values_of, write


def held(data_dir: Path) -> list[OpenTransaction] | None:
    """What the running broker says holds tables back; None: it says nothing now."""
    status = read(data_dir, BrokerStatus, time.time())
    if status is None or status.state != "serving":
        return None
    assert status.partitions_held == len(status.transactions)
    assert not status.warnings
    return list(status.transactions)


def held_when(
    data_dir: Path, is_so: Callable[[list[OpenTransaction]], bool]
) -> list[OpenTransaction]:
    """What it says once that is so."""
    said: list[list[OpenTransaction]] = []

    def is_said() -> bool:
        found = held(data_dir)
        if found is not None:
            said.append(found)
        return found is not None and is_so(found)

    wait_until(is_said)
    return said[-1]


def test_whose_transaction_is_open_is_told_and_it_can_be_aborted(tmp_path):
    data_dir = tmp_path / "data"
    broker = BrokerPart(data_dir)
    broker.start()
    create(broker.bootstrap, "t", 2)
    producer = transactional(broker.bootstrap, "orders")
    producer.begin_transaction()
    write(producer, "t", b"0", b"1", b"2")
    told = held_when(data_dir, lambda found: [t.held_offsets for t in found] == [3])[0]
    assert (told.topic, told.partition, told.start_offset) == ("t", 0, 0)
    assert (told.transactional_id, told.hangs) == ("orders", False)
    broker.kill()
    broker.start()
    held_when(data_dir, lambda found: found == [told])

    where = ("--bootstrap", broker.bootstrap, "--json")
    [listed] = json.loads(lakelog("transactions", "list", *where))
    assert (listed["transactional_id"], listed["state"]) == ("orders", "Ongoing")
    found = json.loads(lakelog("transactions", "describe", "orders", *where))
    assert (found["partitions"], found["started_ms"]) == (["t-0"], told.since_ms)
    lakelog("transactions", "abort", "orders", *where)
    held_when(data_dir, lambda found: not found)
    with pytest.raises(KafkaException):
        producer.commit_transaction(IDLE_S)

    successor = transactional(broker.bootstrap, "orders")
    successor.begin_transaction()
    write(successor, "t", b"3")
    commit(successor)
    assert values_of(broker.bootstrap, "t", LEVELS[0]) == [b"3"]
    held_when(data_dir, lambda found: not found)
    broker.stop()
