"""How far topics reach, seen from beside: segments, tables, catalog."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from broker.catalog import requests
from broker.catalog import topics as stored
from broker.catalog.holds import ERASURE, OWNER
from broker.status.file import path_of
from broker.status.schema import BrokerStatus, CompactorStatus, OpenTransaction
from jobs.extent import Extents, NoSuchTopic, NotInTime, Stuck
from jobs.status import StatusFile
from lakehouse.log.delta_log import entry_path, load
from tests.jobs.world import World, alter_configs, start_at
from tests.support.batches import Record
from tests.support.patience import STUCK_S, wait_until
from tests.support.saying import say, say_as


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


@pytest.fixture
def extents(world):
    found = Extents(world.data_dir)
    yield found
    found.close()


def records(count: int) -> list[Record]:
    return [Record(value=b"%d" % n) for n in range(count)]


def ends(extent) -> list[tuple[int, int, int]]:
    return [(p.log_start, p.table_end, p.high_watermark) for p in extent.partitions]


def test_a_topic_without_records_reaches_nowhere(world, extents):
    world.topic("t", 2)
    [found] = extents.of(["t"])
    assert (found.topic, found.version, ends(found)) == ("t", None, [(0, 0, 0)] * 2)
    assert found.pending() == 0


def test_what_is_durable_is_pending_until_it_is_in_the_table(world, extents):
    topic = world.topic("t", 2)
    world.produce(topic, records(3), 0)
    world.produce(topic, records(5), 1)
    world.produce(topic, records(1), 1)
    [found] = extents.of(["t"])
    assert ends(found) == [(0, 0, 3), (0, 0, 6)]
    assert found.pending() == 9
    assert all(part.segment_bytes > 0 for part in found.partitions)
    world.flush(world.compactor())
    [found] = extents.of(["t"])
    assert ends(found) == [(0, 3, 3), (0, 6, 6)]
    assert found.version is not None
    assert found.pending() == 0


def test_sealed_segments_count_like_the_active_one(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.roll()
    world.produce(topic, records(4))
    assert ends(extents.of(["t"])[0]) == [(0, 0, 7)]


def test_one_that_is_released_during_the_look_is_looked_for_again(
    world, extents, monkeypatch
):
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.roll()
    world.produce(topic, records(4))
    live, looks = extents._segments.live, []

    def released_behind():
        infos = live()
        if not looks:
            world.flush(world.compactor())
            world.release()
            infos[0].path.unlink()
        looks.append(len(infos))
        return infos

    monkeypatch.setattr(extents._segments, "live", released_behind)
    [found] = extents.of(["t"])
    assert looks == [2, 0]
    assert ends(found) == [(0, 7, 7)]


def test_records_below_the_log_start_are_not_pending(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.catalog.change(lambda c: stored.set_log_start(c, {(topic.number, 0): 3}))
    [found] = extents.of(["t"])
    assert ends(found) == [(3, 3, 3)]
    assert found.pending() == 0


KEEPS_MORE = {"lake.retention.ms": "-1"}


def test_those_that_the_table_keeps_for_longer_than_the_log_are(world, extents):
    topic = world.topic("t", configs=KEEPS_MORE)
    world.produce(topic, records(3))
    start_at(world, topic, 3)
    [found] = extents.of(["t"])
    assert ends(found) == [(3, 0, 3)]
    assert found.pending() == 3
    with pytest.raises(NotInTime):
        extents.compact(["t"], timeout_s=0.3)
    compactor, done = world.compactor(flush_ms=10**9), []
    while_it_compacts(
        world, compactor, lambda: done.extend(extents.compact(["t"], STUCK_S))
    )
    assert ends(done[0]) == [(3, 3, 3)]
    assert [row.offset for row in world.rows(topic)] == [0, 1, 2]


def test_but_not_what_is_in_no_segment_any_more(world, extents):
    """What was lost and given up, or gone before the table was to keep it."""
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.release()
    start_at(world, topic, 8)
    alter_configs(world, topic, {"lake.retention.ms": "-1"})
    [found] = extents.of(["t"])
    assert (ends(found), found.pending()) == ([(8, 8, 8)], 0)
    assert extents.compact(["t"], timeout_s=STUCK_S) == [found]


def test_a_table_that_cannot_be_read_reaches_nothing_wherever_the_log_begins(
    world, extents
):
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.flush(world.compactor())
    entry = Path(entry_path(str(world.path(topic)), 0))
    whole = entry.read_bytes()
    entry.write_bytes(b"{")
    start_at(world, topic, 5)
    assert ends(extents.of(["t"])[0]) == [(5, None, 5)]
    with pytest.raises(Stuck, match="is torn"):
        extents.compact(["t"], timeout_s=STUCK_S)
    entry.write_bytes(whole)
    [found] = extents.compact(["t"], timeout_s=STUCK_S)
    assert ends(found) == [(5, 5, 5)]


def test_nor_where_the_table_is_to_keep_it_no_longer(world, extents):
    topic = world.topic("t", configs=KEEPS_MORE)
    world.produce(topic, records(3))
    start_at(world, topic, 3)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(extents.compact, ["t"], STUCK_S)
        wait_until(lambda: world.catalog.read(requests.pending))
        alter_configs(world, topic, {"lake.retention.ms": "-2"})
        [found] = waiting.result()
    assert ends(found) == [(3, 3, 3)]


def test_all_topics_are_told_in_order_of_their_names(world, extents):
    for name in ("b", "a", "C"):
        world.topic(name)
    assert [found.topic for found in extents.of()] == ["C", "a", "b"]
    with pytest.raises(NoSuchTopic, match="there is no topic 'x'"):
        extents.of(["x"])


def test_the_table_of_an_earlier_topic_of_the_name_does_not_count(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.flush(world.compactor())
    world.catalog.change(lambda c: stored.delete(c, topic.number, 1))
    world.topic("t")
    assert ends(extents.of(["t"])[0]) == [(0, 0, 0)]


def test_compact_asks_and_waits_until_it_is_done(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    compactor = world.compactor(flush_ms=10**9)
    done = []
    waiting = threading.Thread(
        target=lambda: done.append(extents.compact(["t"], STUCK_S))
    )
    waiting.start()
    while waiting.is_alive():
        compactor.step()
        time.sleep(0.01)
    waiting.join()
    [[found]] = done
    assert ends(found) == [(0, 3, 3)]
    compactor.step()
    assert world.catalog.read(requests.pending) == []


def test_compact_without_a_compactor_says_what_is_late(world, extents):
    world.produce(world.topic("t"), records(3))
    world.topic("empty")
    with pytest.raises(NotInTime, match=r"after 0.1 s: t; is a compactor running\?"):
        extents.compact([], timeout_s=0.1)
    assert [found.topic for found in extents.compact(["empty"], 0.1)] == ["empty"]


def late(extents) -> str:
    with pytest.raises(NotInTime, match=r"not in the tables after 0.1 s: t; ") as told:
        extents.compact([], timeout_s=0.1)
    return str(told.value).partition("; ")[2]


@pytest.mark.parametrize(
    ("name", "whose"), [("pay", "of pay"), (None, "of producer 7")]
)
def test_compact_names_the_open_transaction_that_is_waited_for(
    world, extents, name, whose
):
    world.produce(world.topic("t"), records(3))
    say(world.data_dir, state="running")
    open_ = [OpenTransaction(topic, 0, 2, 7, name) for topic in ("t", "other")]
    say_as(world.data_dir, BrokerStatus(transactions=tuple(open_)))
    assert late(extents) == (
        f"open transactions hold them back: {whose} in t-0 from offset 2 on "
        "(lakelog transactions list)"
    )


def test_compact_asks_for_a_compactor_only_where_none_runs(world, extents):
    world.produce(world.topic("t"), records(3))
    say_as(world.data_dir, BrokerStatus(transactions=(OpenTransaction("other", 0),)))
    say(world.data_dir, state="stopped")
    assert late(extents) == "is a compactor running?"
    say(world.data_dir, state="running")
    assert late(extents) == "the compactor runs, so ask for longer (--timeout)"


def test_a_topic_that_is_deleted_meanwhile_is_not_waited_for(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    delete = threading.Timer(
        0.2, lambda: world.catalog.change(lambda c: stored.delete(c, topic.number, 1))
    )
    delete.start()
    assert extents.compact([], STUCK_S) == []
    delete.join()


def test_one_that_is_deleted_while_it_is_waited_for_is_no_other(world, extents):
    topic = world.topic("t")
    world.topic("other")
    world.produce(topic, records(3))
    delete = threading.Timer(
        0.2, lambda: world.catalog.change(lambda c: stored.delete(c, topic.number, 1))
    )
    delete.start()
    assert extents.compact(["t"], STUCK_S) == []
    delete.join()


def test_nor_is_another_of_its_name(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))

    def replace(
        c: object,
    ) -> None:  # the name is never free: who looks then waits for none
        stored.delete(c, topic.number, 1)
        stored.create(c, "t", b"next" * 4, 1, {}, 1)

    again = threading.Timer(0.2, lambda: world.catalog.change(replace))
    again.start()
    [found] = extents.compact(["t"], 5)
    again.join()
    assert [part.high_watermark for part in found.partitions] == [0]


def test_nor_where_it_takes_the_name_right_after_the_first_look(
    world, extents, monkeypatch
):
    topic, look = world.topic("t"), extents.of
    world.produce(topic, records(3))

    def look_and_replace(names):
        found = look(names)
        monkeypatch.undo()
        world.catalog.change(lambda c: stored.delete(c, topic.number, 1))
        world.topic("t")
        return found

    monkeypatch.setattr(extents, "of", look_and_replace)
    [found] = extents.compact(["t"], 5)
    assert [part.high_watermark for part in found.partitions] == [0]


def test_compact_tells_what_the_compactor_says_those_asked_for_first(world, extents):
    world.produce(world.topic("t"), records(3))
    others = tuple(f"t{number}-0 cannot be compacted" for number in range(9))
    theirs = "t-0 cannot be", "t cannot be"
    say(world.data_dir, state="running", problems=(*others, *theirs))
    assert late(extents) == (
        "the compactor says: t-0 cannot be; t cannot be; t0-0 cannot be compacted"
    )
    say(world.data_dir, state="kept out", problems=("it is another's",))
    assert late(extents) == "the compactor says: it is another's"


@pytest.mark.parametrize("state", ["starting", "another compactor has the lease"])
def test_compact_tells_the_state_of_one_that_does_not_run_yet(world, extents, state):
    world.produce(world.topic("t"), records(3))
    say(world.data_dir, state=state)
    assert late(extents) == f"of the compactor its status says: {state}"


def tear(world, topic, version: int = 0) -> str:
    """Damage a log entry in the middle of the table's log; what is wrong with it."""
    entry = Path(entry_path(str(world.path(topic)), version))
    entry.write_bytes(entry.read_bytes()[:20])
    return f"{entry} is torn"


def lock(world, topic) -> Path:
    """As an owner does with a feature that our writer does not know; the entry."""
    action = {
        "protocol": {
            "minReaderVersion": 1,
            "minWriterVersion": 7,
            "writerFeatures": ["rowTracking", "domainMetadata"],
        }
    }
    version = len(list((world.path(topic) / "_delta_log").glob("*.json")))
    entry = Path(entry_path(str(world.path(topic)), version))
    entry.write_text(json.dumps(action))
    return entry


def test_a_damaged_table_is_told_beside_what_is_known(world, extents):
    topic, other = world.topic("t"), world.topic("u")
    for one in (topic, other):
        world.produce(one, records(3))
    world.flush(world.compactor())
    world.release()
    world.produce(other, records(2))
    damage = tear(world, topic)
    found, sound = extents.of()
    assert found.problem.startswith(damage)
    assert (found.version, ends(found)) == (None, [(0, None, 3)])
    assert found.path == str(world.path(topic))
    assert found.pending() is None
    assert (sound.problem, sound.pending(), ends(sound)) == (None, 2, [(0, 3, 5)])


def test_a_table_that_its_owner_replaced_is_told(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.flush(world.compactor())
    world.release()
    theirs = pa.schema([("a", pa.int32())])
    deltalake.DeltaTable.create(str(world.path(topic)), theirs, mode="overwrite")
    [found] = extents.of()
    assert "t was replaced in version 2 by its owner" in found.problem
    assert (found.version, ends(found)) == (None, [(0, None, 3)])
    with pytest.raises(Stuck, match=r"t is stuck: .* RESTORE it to version 1"):
        extents.compact(["t"], 0.1)


def test_a_damaged_manifest_is_told_beside_what_is_known(world, extents):
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.flush(world.compactor())
    world.checkpoint()
    (world.data_dir / "wal" / "checkpoint").write_bytes(b"damaged")
    [found] = extents.of(["t"])
    assert "checkpoint" in found.problem
    assert ends(found) == [(0, 3, 3)]


LOCKED = r"^t is stuck: its table takes no commit: .*eature"


def stop_topic(world, compactor) -> Path:
    """Make a topic stuck and say so; the log entry that its owner wrote."""
    topic = world.topic("t")
    world.produce(topic, records(3))
    world.flush(compactor)
    entry = lock(world, topic)
    world.produce(topic, records(3))
    for _ in range(3):
        world.flush(compactor)
    compactor.step()
    (world.data_dir / "run").mkdir()
    StatusFile(world.data_dir, compactor.status, lambda: True).write()
    assert compactor.status().tables[0].stuck
    return entry


def while_it_compacts(world, compactor, wait) -> None:
    """Call ``wait`` beside a compactor for which no time passes."""
    status = StatusFile(world.data_dir, compactor.status, lambda: True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        while not waiting.done():
            compactor.step()
            status.write()
            time.sleep(0.01)
    waiting.result()


def test_compact_says_at_once_what_is_stuck(world, extents):
    compactor = world.compactor()
    stop_topic(world, compactor)

    def wait() -> None:
        with pytest.raises(Stuck, match=LOCKED):
            extents.compact(["t"], timeout_s=10**6)

    for _ in range(3):
        while_it_compacts(world, compactor, wait)


def test_compact_does_not_believe_what_failed_before_it_asked(world, extents):
    compactor = world.compactor()
    entry = stop_topic(world, compactor)
    with pytest.raises(NotInTime):
        extents.compact(["t"], timeout_s=0.3)
    entry.unlink()  # its owner thinks again
    done = []
    while_it_compacts(
        world, compactor, lambda: done.append(extents.compact(["t"], 10**6))
    )
    [[found]] = done
    assert ends(found) == [(0, 6, 6)]


def test_a_compactor_that_does_not_say_when_it_tried_is_believed(world, extents):
    compactor = world.compactor()
    stop_topic(world, compactor)
    path = path_of(world.data_dir, CompactorStatus)
    said = json.loads(path.read_bytes())
    del said["tables"][0]["request_id"]
    path.write_text(json.dumps(said))
    with pytest.raises(Stuck, match=LOCKED):
        extents.compact(["t"], timeout_s=10**6)


def test_compact_says_at_once_that_a_table_cannot_be_read(world, extents):
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, records(3))
    world.flush(compactor)
    world.produce(world.topic("u"), records(3))
    damage = tear(world, topic)
    with pytest.raises(Stuck) as told:
        extents.compact(["t"], timeout_s=10**6)
    assert str(told.value).startswith(f"t is stuck: {damage}")


def test_compact_waits_for_the_others_before_it_tells_what_is_stuck(world, extents):
    topic, other, compactor = world.topic("t"), world.topic("u"), world.compactor()
    world.produce(topic, records(3))
    world.flush(compactor)
    tear(world, topic)
    world.produce(other, records(3))
    caught = []

    def wait() -> None:
        with pytest.raises(Stuck) as told:
            extents.compact([], timeout_s=10**6)
        caught.append(str(told.value))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while waiting.is_alive():
        compactor.step()
        time.sleep(0.01)
    assert caught[0].startswith("t is stuck")
    assert ends(extents.of(["u"])[0]) == [(0, 3, 3)]


def test_a_tables_files_are_told_and_why_they_stay(world, extents):
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(2):
        world.produce(topic, records(3))
        world.flush(compactor)
    [found] = extents.of(["t"])
    assert (found.files, found.not_merged) == (2, None)
    sizes = [path.stat().st_size for path in world.path(topic).glob("*/*.parquet")]
    assert found.file_bytes == sum(sizes)
    [part] = found.partitions
    assert (part.files, part.small_files) == (2, 2)
    entry = Path(entry_path(str(world.path(topic)), 3))
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7}
    protocol["writerFeatures"] = ["rowTracking"]
    entry.write_text(json.dumps({"protocol": protocol}))
    assert extents.of(["t"])[0].not_merged == "it has rowTracking"
    assert extents.of(["t"])[0].remarks == ()
    metadata = load(str(world.path(topic))).metadata
    said = {**metadata.configuration, "delta.appendOnly": "TRUE"}
    body = {**metadata.body, "configuration": said}
    entry.with_name(f"{4:020d}.json").write_text(json.dumps({"metaData": body}))
    [remark] = extents.of(["t"])[0].remarks
    assert "delta.appendOnly is TRUE" in remark


def test_a_partitions_small_files_are_told(world, extents, monkeypatch):
    topic, compactor = world.topic("t", 2), world.compactor()
    for count in (1, 999):
        world.produce(topic, records(count), 1)
        world.flush(compactor)
    sizes = [path.stat().st_size for path in world.path(topic).glob("*/*.parquet")]
    monkeypatch.setattr("jobs.extent.SMALL_BYTES", max(sizes))
    found = extents.of(["t"])[0].partitions
    assert [(one.files, one.small_files) for one in found] == [(0, 0), (2, 1)]


def test_a_table_that_is_held_is_told_and_not_waited_for(world, extents):
    topic = world.topic("t")
    world.topic("other")
    world.produce(topic, records(3))
    assert extents.of(["t"])[0].held_until_ms is None
    until_ms = extents.hold("t", 3_600_000)
    assert [one.held_until_ms for one in extents.of(["t", "other"])] == [until_ms, None]
    with pytest.raises(Stuck, match="t is stuck: its owner holds its table until"):
        extents.compact(["t"], STUCK_S)
    extents.hold("t", 3_600_000, ERASURE)  # the owner's outlives it
    with pytest.raises(Stuck, match="its owner holds its table until"):
        extents.compact(["t"], STUCK_S)
    assert extents.release("t", OWNER) == 1
    with pytest.raises(Stuck, match="t is stuck: lakelog erase holds its table"):
        extents.compact(["t"], STUCK_S)
    assert extents.release("t", "somebody") == 0
    assert extents.release("t") == 1
    assert extents.of(["t"])[0].held_until_ms is None
    with pytest.raises(NoSuchTopic):
        extents.hold("nothing", 1)
