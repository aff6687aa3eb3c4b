"""What waits for a table that cannot be read is told, and nothing is done of it."""

import deltalake
import pyarrow as pa
import pytest

from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs.backlog import Backlog
from jobs.unread import Unread
from tests.jobs.world import World, some


def test_an_end_is_kept_as_long_as_its_table_cannot_be_read(world: World) -> None:
    topics = [world.topic("t"), world.topic("other")]
    one, other = ((topic.number, 0) for topic in topics)
    for topic in topics:
        world.produce(topic, some(10))
    backlog = Backlog(LocalSegmentStore(PosixFiles(), world.data_dir / "wal"))
    backlog.refresh(0)
    unread, found = Unread(backlog), []
    for ends, unreadable in (
        ({one: 3, other: 4}, {}),
        ({one: 3, other: 4}, {one[0]: "torn"}),
        ({other: 4}, {one[0]: "torn"}),
        ({other: 10}, {one[0]: "torn", other[0]: "torn"}),  # has all
        ({}, {}),
        ({}, {one[0]: "torn"}),
    ):
        unread.keep(ends, unreadable)
        found.append([(each.key, each.start) for each in unread.waiting()])
    assert found == [[], [(one, 3)], [(one, 3)], [(one, 3)], [], [(one, 0)]]


@pytest.mark.parametrize("is_known", [True, False])
def test_what_waits_for_a_table_that_cannot_be_read_is_told(
    world: World, is_known: bool
) -> None:
    """From its last known end on, or all that the segments have; no round is made."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, some(10))
    compactor.step()
    batch_bytes = compactor.status().pending_bytes
    assert batch_bytes > 0
    world.flush(compactor)
    compactor.step()  # sees where the table ends now
    theirs = pa.schema([("a", pa.int32())])
    deltalake.DeltaTable.create(str(world.path(topic)), theirs, mode="overwrite")
    if not is_known:
        compactor = world.compactor()
    rounds = compactor.counters.rounds
    world.produce(topic, some(10))
    for _ in range(3):
        compactor.step()
        world.clock.advance(60_000)
    compactor.step()
    status = compactor.status()
    assert status.pending_bytes == batch_bytes * (1 if is_known else 2)
    assert status.oldest_pending_ms == 180_000
    [state] = status.tables
    assert not state.readable
    assert state.pending_bytes == status.pending_bytes
    assert state.lags_ms == {0: state.lag_ms} == {0: 180_000}
    assert compactor.counters.rounds == rounds
