"""Following the tables: what stands where, soon after it does."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import deltalake
import pytest
from structlog.testing import capture_logs

from broker.ids import PartitionNumber, TopicNumber
from broker.lake import table as module
from broker.lake.follower import Follower
from broker.lake.lake import Lake
from broker.lake.table import TopicTable
from broker.topics.topic import Topic
from lakehouse import properties, warehouse_names
from lakehouse.location import table_path
from lakehouse.log.commit import create_table, remove_files, repair, set_aside
from lakehouse.log.delta_log import entry_path, load
from lakehouse.log.replaced import why_replaced
from lakehouse.watching.log_watch import LogWatch
from tests.support.lake_following import version_of
from tests.support.patience import IDLE_S, wait_until
from tests.support.tables import TOPIC_ID, Writer
from tests.support.warehouses import Further


def a_table(warehouse: Path, topic_id: str = TOPIC_ID) -> TopicTable:
    return TopicTable(topic_id, table_path(str(warehouse), "orders"))


def test_no_table_has_no_end(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    assert not table.poll()
    assert (table.view.version, dict(table.view.ends)) == (-1, {})


def test_a_new_table_and_each_commit_are_noticed(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    table.poll()
    writer = Writer(str(tmp_path))
    assert table.poll()
    assert not table.poll()
    writer.add(0, 0, 10)
    writer.add(1, 5, 10)
    assert table.poll()
    assert dict(table.view.ends) == {0: 10, 1: 10}
    assert table.view.files(1).first_offset == 5
    assert not table.poll()


def test_the_owners_changes_move_files_and_not_ends(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    for n in range(4):
        writer.add(0, n * 10, n * 10 + 10)
    table = a_table(tmp_path)
    table.poll()
    assert len(table.view.files(0).files) == 4
    deltalake.DeltaTable(writer.path).optimize.compact()
    assert table.poll()
    assert len(table.view.files(0).files) == 1
    deltalake.DeltaTable(writer.path).delete("offset < 35")
    table.poll()
    assert table.view.files(0).first_offset == 35
    assert dict(table.view.ends) == {0: 40}


def test_files_that_left_are_not_remembered(tmp_path: Path) -> None:
    """A broker runs for months; each file leaves its table one day."""
    writer, table = Writer(str(tmp_path)), a_table(tmp_path)
    for end in range(10, 60, 10):
        writer.add(0, end - 10, end)
        table.poll()
        [file] = load(writer.path).files.values()
        remove_files(
            writer.path, TOPIC_ID, [(file.path, 0, file.size)],
            now_ms=1, log_starts={0: end},
        )  # fmt: skip
        table.poll()
    assert table.view.ends == {0: 50}
    assert table._snapshot is not None
    assert not table._snapshot.removed
    table.reload()
    assert not table._snapshot.removed


def test_a_new_table_was_changed_by_nobody(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    table.poll()
    Writer(str(tmp_path)).add(0, 0, 10)
    assert table.poll()
    assert (table.view.version, table.view.changed) == (1, 0)


def test_an_empty_entry_below_a_checkpoint_of_a_new_table_stops_no_look(
    tmp_path: Path,
) -> None:
    table = a_table(tmp_path)
    table.poll()
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    Path(entry_path(writer.path, 2)).touch()
    deltalake.DeltaTable(writer.path).delete("offset = 3")
    deltalake.DeltaTable(writer.path).create_checkpoint()
    assert table.poll()
    view = table.view
    assert (view.version, view.changed, view.unreadable) == (3, 1, None)


@pytest.mark.parametrize("log_is_whole", [True, False])
def test_what_an_owner_did_to_a_new_table_before_we_looked_is_noticed(
    tmp_path: Path, *, log_is_whole: bool
) -> None:
    """Where its log does not tell whether it was changed, it counts as changed."""
    table = a_table(tmp_path)
    table.poll()
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    if log_is_whole:
        deltalake.DeltaTable(writer.path).delete("offset < 5")
        writer.add(0, 10, 20)
    else:
        deltalake.DeltaTable(writer.path).create_checkpoint()
        os.remove(entry_path(writer.path, 0))
    assert table.poll()
    assert (table.view.version, table.view.changed) == (3 if log_is_whole else 1, 1)


def test_the_table_of_an_earlier_topic_is_not_ours(tmp_path: Path) -> None:
    old = Writer(str(tmp_path), topic_id="f" * 32)
    old.add(0, 0, 10)
    table = a_table(tmp_path)
    table.poll()
    assert dict(table.view.ends) == {}
    Writer(str(tmp_path)).add(0, 0, 3)
    table.poll()
    assert dict(table.view.ends) == {0: 3}


def test_starting_behind_a_checkpoint_is_starting_at_it(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    for version in range(3):
        os.unlink(entry_path(writer.path, version))
    writer.add(0, 30, 40)
    table = a_table(tmp_path)
    table.poll()
    assert dict(table.view.ends) == {0: 40}
    assert len(table.view.files(0).files) == 4


def test_entries_that_were_cleaned_away_are_caught_up_with(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table = a_table(tmp_path)
    table.poll()
    writer.add(0, 10, 20)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    for version in range(3):
        os.unlink(entry_path(writer.path, version))
    assert not table.poll()
    table.catch_up()
    assert dict(table.view.ends) == {0: 20}


@pytest.fixture
def following(tmp_path: Path) -> Iterator[Callable[..., Follower]]:
    """Followers whose rounds are made by hand, on a clock that is set by hand."""
    made: list[Follower] = []

    def follow(
        tables: Mapping[TopicNumber, TopicTable], now_ms: list[int], *, is_told: bool
    ) -> Follower:
        watch = LogWatch(str(tmp_path), tells=lambda path: is_told)
        follower = Follower(
            3_600_000, lambda call: call(), lambda _: None, watch, lambda: now_ms[0]
        )
        made.append(follower)
        follower.start(tables.items())
        return follower

    yield follow
    for follower in made:
        follower.close()


Following = Callable[..., Follower]


def test_a_checkpoint_that_is_ahead_is_caught_up_with_at_once(
    tmp_path: Path, following: Following
) -> None:
    writer, table = Writer(str(tmp_path)), a_table(tmp_path)
    writer.add(0, 0, 10)
    follower = following({TopicNumber(7): table}, [0], is_told=True)
    follower._round(catch_up=False)
    writer.add(0, 10, 20)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    for version in range(3):
        os.unlink(entry_path(writer.path, version))
    follower._round(catch_up=False)
    assert dict(table.view.ends) == {0: 20}


@pytest.mark.parametrize("is_told", [True, False])
def test_tables_at_rest_are_polled_once_a_minute_and_what_moves_within_a_second(
    tmp_path: Path,
    following: Following,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_told: bool,
) -> None:
    writers = [Writer(str(tmp_path), f"t{n}") for n in range(5)]
    paths = [*(w.path for w in writers), *(str(tmp_path / f"no{n}") for n in range(5))]
    tables = {TopicNumber(n): TopicTable(TOPIC_ID, p) for n, p in enumerate(paths)}
    now_ms, polls = [0], []

    def poll(table: TopicTable) -> bool:
        polls.append(table)
        return really(table)

    really = TopicTable.poll
    follower = following(tables, now_ms, is_told=is_told)
    monkeypatch.setattr(TopicTable, "poll", poll)

    def rounds(duration_ms: int) -> None:
        polls.clear()
        for _ in range(duration_ms // 250):
            now_ms[0] += 250
            follower._round(catch_up=False)

    rounds(20_000)
    rounds(60_000)
    assert 9 <= len(polls) <= 11
    writers[3].add(0, 0, 10)
    rounds(1_250)
    assert dict(tables[TopicNumber(3)].view.ends) == {0: 10}
    Writer(str(tmp_path), "no2").add(0, 0, 20)
    rounds(1_250)
    assert dict(tables[TopicNumber(7)].view.ends) == {0: 20}


def test_a_table_that_cannot_be_read_is_tried_in_each_round(
    tmp_path: Path, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be for want of files to open: no log changes when that is over."""
    writer, table, now_ms = Writer(str(tmp_path)), a_table(tmp_path), [0]
    follower = following({TopicNumber(7): table}, now_ms, is_told=True)
    whole = Path(entry_path(writer.path, 0)).read_bytes()
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    Path(entry_path(writer.path, 1)).write_bytes(whole[:40])
    follower._round(catch_up=False)
    assert table.view.unreadable is not None
    polls: list[TopicTable] = []
    monkeypatch.setattr(TopicTable, "poll", lambda table: polls.append(table) or False)
    for _ in range(100):
        now_ms[0] += 250
        follower._round(catch_up=False)
    assert len(polls) == 100


def test_a_table_whose_log_moves_is_loaded_although_its_time_did_not(
    tmp_path: Path, following: Following
) -> None:
    """An entry that comes in the same tick of the clock as its directory did: what a
    load has found before that says nothing of it."""
    writer, table, now_ms = Writer(str(tmp_path)), a_table(tmp_path), [0]
    entry = Path(entry_path(writer.path, 0))
    whole, log = entry.read_bytes(), entry.parent
    entry.unlink()
    follower = following({TopicNumber(7): table}, now_ms, is_told=True)
    follower._round(catch_up=False)
    assert table.view.version == -1
    tick_ns = log.stat().st_mtime_ns
    entry.write_bytes(whole)
    os.utime(log, ns=(tick_ns, tick_ns))
    now_ms[0] += 250
    follower._round(catch_up=False)
    assert table.view.version == 0


def test_who_asks_has_all_tables_polled(
    tmp_path: Path, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {TopicNumber(n): a_table(tmp_path / f"{n}") for n in range(5)}
    now_ms = [0]
    follower = following(tables, now_ms, is_told=True)
    follower._round(catch_up=False)
    now_ms[0] = 10_000
    polled: list[TopicTable] = []
    monkeypatch.setattr(TopicTable, "poll", lambda table: polled.append(table) or False)
    follower._is_woken = True
    follower._round(catch_up=False)
    assert set(polled) == set(tables.values())


def replace_last_entry(writer: Writer) -> None:
    """As an owner who takes the last commit out, and writes what follows anew."""
    os.unlink(entry_path(writer.path, 2))
    writer.add(0, 10, 30)


def test_an_entry_that_was_replaced_is_read_when_another_follows(
    tmp_path: Path,
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    table = a_table(tmp_path)
    table.poll()
    replace_last_entry(writer)
    writer.add(0, 30, 40)
    assert table.poll()
    files = table.view.files(0).files
    assert [file.rows for file in files] == [10, 20, 10]
    assert dict(table.view.ends) == {0: 40}


def test_an_entry_that_was_replaced_is_caught_up_with(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    table = a_table(tmp_path)
    table.poll()
    before = table.view
    table.catch_up()
    assert table.view is before
    replace_last_entry(writer)
    table.catch_up()
    assert dict(table.view.ends) == {0: 30}


def test_a_change_is_noticed_although_the_version_went_back(tmp_path: Path) -> None:
    """He deletes rows, takes that back, and deletes others: at the same version."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table = a_table(tmp_path)
    table.poll()
    seen = [table.view.changed]
    for condition in ("offset < 5", "offset >= 5"):
        deltalake.DeltaTable(writer.path).delete(condition)
        table.catch_up()
        table.poll()
        assert table.view.version == 2
        seen.append(table.view.changed)
        os.unlink(entry_path(writer.path, 2))
        table.catch_up()
        assert table.view.version == 1
        seen.append(table.view.changed)
    assert seen == sorted(set(seen))


def test_a_load_that_finds_the_same_files_is_no_change(tmp_path: Path) -> None:
    """A file that is gone makes every reader of it load the table anew."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table = a_table(tmp_path)
    table.poll()
    before = table.view.changed
    table.reload()
    os.rename(writer.path, tmp_path / "away")
    table.catch_up()
    os.rename(tmp_path / "away", writer.path)
    assert table.poll()
    assert table.view.changed == before


def test_a_torn_last_entry_is_waited_for(tmp_path: Path) -> None:
    """A power cut left it empty; the compactor moves it away and commits again."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    with open(entry_path(writer.path, 2), "w"):
        pass
    table = a_table(tmp_path)
    table.poll()
    assert dict(table.view.ends) == {0: 10}
    assert table.view.unreadable is None
    assert repair(writer.path) is not None
    assert repair(writer.path) is None
    writer.add(0, 10, 20)
    table.poll()
    assert dict(table.view.ends) == {0: 20}


def test_a_hole_in_the_log_is_told_and_healed(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table = a_table(tmp_path)
    table.poll()
    writer.add(0, 10, 20)
    writer.add(0, 20, 30)
    entry = entry_path(writer.path, 2)
    whole = Path(entry).read_bytes()
    Path(entry).write_bytes(whole[:40])
    table.poll()
    assert table.view.unreadable is not None
    assert not table.poll()
    Path(entry).write_bytes(whole)
    assert table.poll()
    assert table.view.unreadable is None
    assert dict(table.view.ends) == {0: 30}
    assert len(table.view.files(0).files) == 3


def test_what_becomes_of_a_table_is_logged_when_it_changes(tmp_path: Path) -> None:
    writer, table = Writer(str(tmp_path)), a_table(tmp_path)
    entry = Path(entry_path(writer.path, 1))
    with capture_logs() as logs:
        assert table.poll()
        writer.add(0, 0, 10)
        writer.add(0, 10, 20)
        whole = entry.read_bytes()
        entry.write_bytes(whole[:40])
        assert table.poll()
        assert not table.poll()
        entry.write_bytes(whole)
        assert table.poll()
        writer.add(0, 20, 30)
        assert table.poll()
    events = [one["event"] for one in logs]
    assert events == ["table cannot be read", "table can be read again"]


def test_a_table_that_could_not_be_read_is_read_as_soon_as_it_is_back(
    tmp_path: Path,
) -> None:
    """Its owner moved it away, and mended an entry there: its place looks the same."""
    writer, table = Writer(str(tmp_path)), a_table(tmp_path)
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    entry = Path(entry_path(writer.path, 1))
    whole = entry.read_bytes()
    entry.write_bytes(whole[:40])
    assert table.poll()
    assert table.view.unreadable is not None
    os.rename(writer.path, tmp_path / "away")
    assert table.poll()
    assert "there is no table at" in (table.view.absent or "")
    (tmp_path / "away" / entry.relative_to(writer.path)).write_bytes(whole)
    os.rename(tmp_path / "away", writer.path)
    assert table.poll()
    assert (table.view.unreadable, dict(table.view.ends)) == (None, {0: 20})


def test_a_fault_of_ours_while_following_makes_its_table_unreadable_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, table = Writer(str(tmp_path)), a_table(tmp_path)
    writer.add(0, 0, 10)
    assert table.poll()

    def follow(_: object) -> None:
        raise ZeroDivisionError("nobody thought of it")

    with monkeypatch.context() as meanwhile, capture_logs():
        meanwhile.setattr(module, "follow", follow)
        assert table.poll()
        assert not table.poll(), "which says it once"
    assert "nobody thought of it" in (table.view.unreadable or "")
    assert dict(table.view.ends) == {0: 10}
    assert table.poll()
    assert table.view.unreadable is None


def test_a_table_set_aside_keeps_what_was_seen(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table = a_table(tmp_path)
    table.poll()
    set_aside(str(tmp_path), writer.path, "orders", TOPIC_ID)
    assert not table.poll()
    assert dict(table.view.ends) == {0: 10}


def test_a_table_that_lost_the_topics_id_is_told(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table = a_table(tmp_path)
    table.poll()
    entry = Path(entry_path(writer.path, 0)).read_text()
    (metadata,) = [ln for ln in entry.splitlines() if ln.startswith('{"metaData"')]
    changed = metadata.replace(properties.TOPIC_ID, "gone")
    Path(entry_path(writer.path, 2)).write_text(changed)
    table.poll()
    why = why_replaced(load(writer.path), TOPIC_ID)
    assert "lost its topic's id: RESTORE it to version 1" in (why or "")
    assert table.view.unreadable == why  # the compactor says the same: told once


def test_an_end_that_nothing_proves_is_told_until_the_next_commit(
    tmp_path: Path,
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    topic = Topic(TopicNumber(7), bytes.fromhex(TOPIC_ID), "orders", 2, {})
    lake = Lake(tmp_path, call_soon=lambda _: None, follow_ms=10)
    try:
        lake.start([topic])
        said = deltalake.Transaction(f"{TOPIC_ID}/0", 10**12)
        table = deltalake.DeltaTable(writer.path)
        table.delete(
            "offset = 3",
            commit_properties=deltalake.CommitProperties(app_transactions=[said]),
        )
        wait_until(lambda: lake.problems() != [])
        assert "partition 0 ends at offset 1000000000000" in lake.problems()[0]
        assert lake.table_end(topic.number, PartitionNumber(0)) == 10
        assert lake.verified_ends(topic.number) == {0: 10}
        writer.add(0, 10, 20)
        wait_until(lambda: lake.table_end(topic.number, PartitionNumber(0)) == 20)
        assert lake.problems() == []
    finally:
        lake.close()


def test_a_link_in_a_tables_place_is_told_and_stops_no_start(tmp_path: Path) -> None:
    """Its owner moved it to a larger disk, and left a link."""
    warehouse, away = tmp_path / "tables", tmp_path / "away"
    path = Path(Writer(str(warehouse)).path)
    path.rename(away)
    path.symlink_to(away)
    topic = Topic(TopicNumber(7), bytes.fromhex(TOPIC_ID), "orders", 2, {})
    lake = Lake(warehouse, call_soon=lambda _: None, follow_ms=10)
    try:
        lake.start([topic])
        assert "does not lie in" in (lake.unreadable(topic.number) or "")
        assert lake.verified_ends(topic.number) == {}
        path.unlink()
        away.rename(path)
        wait_until(lambda: version_of(lake, topic.number) == 0)
        assert lake.unreadable(topic.number) is None
    finally:
        lake.close()


@pytest.mark.parametrize("there", ["nothing", "an empty place", "another"])
def test_a_table_whose_disk_is_away_at_a_start_is_unreadable_and_not_absent(
    tmp_path: Path, there: str
) -> None:
    """So its partitions wait for it, and begin nowhere."""
    two = Further(tmp_path, "fast")
    configs = {warehouse_names.CONFIG: "fast"}
    create_table(two.warehouse, "orders", TOPIC_ID, 2, configs=configs)
    writer = Writer(two.warehouse)
    writer.add(0, 0, 10)
    two.unmount("fast", there)
    topic = Topic(TopicNumber(7), bytes.fromhex(TOPIC_ID), "orders", 2, configs)
    partition = PartitionNumber(0)
    lake = Lake(Path(two.warehouse), call_soon=lambda call: call(), follow_ms=10)
    try:
        lake.start([topic])
        assert "mounted?" in (lake.unreadable(topic.number) or "")
        assert list(lake.unreadable_topics()) == [topic.number]
        assert any("mounted?" in one for one in lake.problems())
        two.mount("fast")
        wait_until(lambda: lake.table_end(topic.number, partition) == 10)
        assert lake.problems() == []
        writer.add(0, 10, 20)
        wait_until(lambda: lake.table_end(topic.number, partition) == 20)
        assert lake.verified_ends(topic.number) == {0: 20}
    finally:
        lake.close()


def test_a_warehouse_that_is_away_is_not_asked_for_in_each_round_of_each_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of a millisecond each: of a thousand tables, a third of each round."""
    two, looks = Further(tmp_path, "fast"), list[str]()
    configs = {warehouse_names.CONFIG: "fast"}
    create_table(two.warehouse, "orders", TOPIC_ID, 2, configs=configs)
    really = module.check_contained
    monkeypatch.setattr(
        module, "check_contained", lambda path: looks.append(path) or really(path)
    )
    table = a_table(Path(two.warehouse))
    two.unmount("fast")
    assert table.poll()
    assert not any(table.poll() for _ in range(20))
    assert looks == [table.path]
    assert "mounted?" in (table.view.unreadable or "")
    assert not table.poll()
    assert len(looks) == 2, "now and then it is, should another disk have come"
    two.mount("fast")
    assert table.poll()
    assert (table.view.version, table.view.unreadable) == (0, None)
    table.reload()
    two.unmount("fast")
    table.reload()
    assert "mounted?" in (table.view.unreadable or "")


def test_a_file_in_a_tables_place_does_not_end_the_following(tmp_path: Path) -> None:
    theirs, other = Writer(str(tmp_path), "theirs"), Writer(str(tmp_path), "other")
    tables = {
        TopicNumber(n): TopicTable(TOPIC_ID, writer.path)
        for n, writer in enumerate((theirs, other))
    }
    follower = Follower(1, lambda call: call(), lambda _: None, LogWatch(str(tmp_path)))
    follower.start(tables.items())
    try:
        shutil.rmtree(theirs.path)
        Path(theirs.path).write_text("moved away")
        wait_until(lambda: tables[TopicNumber(0)].view.unreadable is not None)
        tables[TopicNumber(0)].catch_up()
        other.add(0, 0, 10)
        wait_until(lambda: tables[TopicNumber(1)].view.ends == {0: 10})
    finally:
        follower.close()


def test_the_follower_tells_the_loop(tmp_path: Path) -> None:
    async def check() -> None:
        told: asyncio.Queue[int] = asyncio.Queue()
        call_soon: Callable[..., object] = (
            asyncio.get_running_loop().call_soon_threadsafe
        )
        follower = Follower(5, call_soon, told.put_nowait, LogWatch(str(tmp_path)))
        follower.start([])
        follower.add(7, a_table(tmp_path))
        writer = Writer(str(tmp_path))
        assert await asyncio.wait_for(told.get(), IDLE_S) == 7
        writer.add(0, 0, 10)
        assert await asyncio.wait_for(told.get(), IDLE_S) == 7
        found = follower.get(7)
        assert found is not None
        while dict(found.view.ends) != {0: 10}:
            await asyncio.wait_for(told.get(), IDLE_S)
        follower.drop(7)
        assert follower.get(7) is None
        follower.close()

    asyncio.run(check())


def test_a_vanished_warehouse_does_not_end_the_following(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path / "w"))
    writer.add(0, 0, 10)
    table = a_table(tmp_path / "w")
    table.poll()
    shutil.rmtree(tmp_path / "w")
    table.reload()
    assert dict(table.view.ends) == {0: 10}
