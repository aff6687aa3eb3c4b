"""A checkpoint's payload: all partitions, or a refusal."""

import pytest

from broker.log.checkpoint import pack, unpack
from broker.log.partition import PartitionLog
from broker.log.transactions import Transactions
from broker.records.markers import Marker
from tests.broker.log.headers import header, marker_header


def some_logs() -> dict[tuple[int, int], PartitionLog]:
    logs = {(1, 0): PartitionLog(), (1, 1): PartitionLog(5), (2**31, 7): PartitionLog()}
    for at, log in enumerate(logs.values()):
        log.admit(header(3, producer=at, epoch=2), 1_000)
        log.commit(log.durable, log.next - 1, 0, 1, 1)
    return logs


def with_a_hole() -> dict[tuple[int, int], PartitionLog]:
    """The same, and one more batch in (1, 1) behind one that was refused."""
    logs = some_logs()
    logs[1, 1].admit(header(2), 1_000)
    logs[1, 1].admit(header(1), 1_000)
    logs[1, 1].abandon(8, 9)
    logs[1, 1].commit(10, 10, 0, 2, 1)
    return logs


def test_every_partition_comes_back() -> None:
    logs = some_logs()
    snapshots = unpack(pack(logs.items()))
    assert snapshots == {key: log.snapshot() for key, log in logs.items()}
    assert snapshots[1, 1].durable == 8


def test_no_partition_at_all_is_a_checkpoint() -> None:
    assert unpack(pack([])) == {}


def test_a_cut_or_longer_payload_is_refused() -> None:
    payload = pack(some_logs().items())
    for cut in range(len(payload)):
        with pytest.raises(ValueError):
            unpack(payload[:cut])
    with pytest.raises(ValueError):
        unpack(payload + b"x")
    with pytest.raises(ValueError):
        unpack(b"\x09" + payload[1:])


def test_holes_come_back_and_an_older_form_tells_none() -> None:
    payload = pack(with_a_hole().items())
    assert unpack(payload)[1, 1].holes == ((8, 10),)
    assert unpack(payload)[1, 0].holes == ()
    older = b"\x01" + payload[1 : -4 - 24]
    snapshots = unpack(older)
    assert {snapshot.holes for snapshot in snapshots.values()} == {None}
    assert snapshots[1, 1].durable == 11


def test_a_hole_in_a_partition_that_is_not_there_is_refused() -> None:
    payload = bytearray(pack(with_a_hole().items()))
    payload[-24 + 7] = 9  # the partition of the one hole, which is the last thing in it
    with pytest.raises(ValueError, match="a hole in no partition"):
        unpack(bytes(payload))


def with_transactions() -> dict[tuple[int, int], PartitionLog]:
    """The same logs; (1, 1) has an open and an aborted transaction, (1, 0) an open."""
    logs = some_logs()
    location = iter(range(2, 100))
    for key, producer in (((1, 1), 8), ((1, 1), 9), ((1, 0), 9)):
        log, one = logs[key], header(producer=producer, transactional=True)
        base = log.admit(one, 1_000)
        assert isinstance(base, int)
        log.commit_transactional(base, one, next(location), 1)
    log = logs[1, 1]
    base = log.admit_marker(8, 0)
    ended = marker_header(8)
    log.commit_transactional(base, ended, next(location), 1, Marker(False))
    return logs


def test_transactions_come_back() -> None:
    logs = with_transactions()
    snapshots = unpack(pack(logs.items()))
    assert snapshots == {key: log.snapshot() for key, log in logs.items()}
    again = Transactions.restore(snapshots[1, 1].transactions)
    assert again.open == {9: 9}
    assert again.aborted(0, 9) == [(8, 8)]
    assert snapshots[2**31, 7].transactions == b""


def test_who_never_had_a_transaction_can_go_back_to_an_older_version() -> None:
    assert pack(with_a_hole().items())[0] == 2
    assert pack(with_transactions().items())[0] == 3


def test_a_cut_or_longer_payload_with_transactions_is_refused() -> None:
    payload = pack(with_transactions().items())
    for cut in range(len(payload)):
        with pytest.raises(ValueError):
            unpack(payload[:cut])
    with pytest.raises(ValueError):
        unpack(payload + b"x")


def test_transactions_in_a_partition_that_is_not_there_are_refused() -> None:
    logs = with_transactions()
    payload = pack([((1, 0), logs[1, 0])])
    at = payload.rindex(bytes.fromhex("000000010000000000000019"))
    with pytest.raises(ValueError, match="transactions in no partition"):
        unpack(payload[:at] + b"\0\0\0\x05" + payload[at + 4 :])
