"""The order of an erasure, without the running parts; with them: the journeys."""

import fcntl
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy.exc import OperationalError

from broker.catalog import holds, renewals, requests
from broker.status.file import STALE_S, path_of
from broker.status.schema import BrokerStatus, CompactorStatus
from jobs.check import check_data_directory
from jobs.erasing import erase as erasing
from jobs.erasing import records
from jobs.erasing.erase import HOLDER, LOOKS_MAX, Asked, Counts, dry_run, run
from jobs.erasing.search import Search
from jobs.erasing.table import NotErased
from jobs.extent import Extents, NotInTime
from jobs.merging.rewrite import Merged, MergeTask, attempted
from jobs.owners.statement import hold
from lakehouse import in_flight
from lakehouse.in_flight import begin, hidden
from lakehouse.log.delta_log import entry_path, load
from tests.jobs.erasing.scene import PERSON, SECRET, Scene, watched
from tests.jobs.world import World, alter_configs, start_at
from tests.support.asleep import COMPACTOR, asleep
from tests.support.batches import Record
from tests.support.patience import wait_until
from tests.support.saying import say_as
from tests.support.traces import traces

ASKED = Asked("people", PERSON)


@pytest.fixture
def scene(world: World) -> Scene:
    made = Scene(world)
    made.put([b"a", PERSON])
    say_as(world.data_dir, BrokerStatus(state="serving"))
    return made


@pytest.fixture
def broker(scene: Scene) -> Iterator[None]:
    """Lets go of all segments when it is asked to."""
    catalog, wal, over = scene.world.catalog, scene.world.wal, threading.Event()

    def serve() -> None:
        while not over.wait(0.05):
            say_as(scene.world.data_dir, BrokerStatus(state="serving"))
            number = catalog.read(renewals.pending)
            if number is not None:
                wal.renew()
                if wal.segments():
                    scene.world.release()
                while wal.to_renew:
                    over.wait(0.01)
                catalog.change(lambda c, n=number: renewals.done(c, n, 1))

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    over.set()
    thread.join()


def rows(scene: Scene) -> list[dict[str, object]]:
    place = records.place(scene.world.data_dir)
    found: list[dict[str, object]] = (
        deltalake.DeltaTable(place).to_pyarrow_table().to_pylist()
    )
    return found


def test_a_dry_run_counts_and_changes_nothing(scene: Scene) -> None:
    scene.world.produce(scene.topic, [Record(PERSON)] * 3)
    before = scene.files()
    assert dry_run(scene.world.data_dir, ASKED) == [Counts(0, 1, 0, 3)]
    assert scene.files() == before
    assert len(scene.shown) == 2


def test_a_dry_run_counts_what_lies_in_no_partition_and_what_would_stay(
    scene: Scene,
) -> None:
    [path] = scene.files()
    for beside in ("part-0.parquet", "partition=0/part-1.parquet"):
        shutil.copy(os.path.join(scene.root, path), os.path.join(scene.root, beside))
        os.utime(os.path.join(scene.root, beside), (1, 1))
    Path(scene.root, "partition=0", "part-2.parquet").write_bytes(b"half of it")
    assert dry_run(scene.world.data_dir, ASKED) == [
        Counts(-1, 0, 1, 0), Counts(0, 1, 1, 0, 1),
    ]  # fmt: skip


@pytest.mark.usefixtures("broker")
def test_what_the_log_gave_up_and_the_table_is_yet_to_get_is_waited_for(
    scene: Scene,
) -> None:
    """Else it would come from segments when the erasure is proven and over."""
    world = scene.world
    alter_configs(world, scene.topic, {"lake.retention.ms": "-1"})
    world.produce(scene.topic, [Record(PERSON, SECRET)])
    start_at(world, scene.topic, 3)
    assert dry_run(world.data_dir, ASKED) == [Counts(0, 1, 0, 1)]
    with pytest.raises(NotErased, match="not in the tables after"):
        run(world.data_dir, ASKED, 0.3)
    world.flush(scene.steps)
    assert dict(run(world.data_dir, ASKED, 30).rows) == {0: 2}
    assert scene.left() == []


@pytest.mark.usefixtures("broker")
def test_it_is_done_proven_and_noted(scene: Scene) -> None:
    done = run(scene.world.data_dir, ASKED, 30)
    assert (dict(done.rows), list(done.left)) == ({0: 1}, [])
    assert scene.left() == []
    assert scene.shown == [(0, b"a")]
    [row] = rows(scene)
    assert (row["rows"], row["is_proven"], row["asked_as"]) == (1, True, "key")
    assert scene.world.catalog.read(lambda c: holds.load(c, 0)) == {}
    assert check_data_directory(scene.world.data_dir).problems == []
    assert not (scene.world.data_dir / "spill-erase").exists()


@pytest.mark.usefixtures("broker")
def test_nothing_is_proven_beside_what_nobody_can_look_into(scene: Scene) -> None:
    mine = Path(scene.root, "notes.parquet")
    mine.write_bytes(b"no Parquet at all")
    os.utime(mine, (1, 1))
    done = run(scene.world.data_dir, ASKED, 30)
    assert (dict(done.rows), done.proven) == ({0: 1}, ())
    [sentence] = done.left
    assert sentence.startswith("notes.parquet may have such rows: ")
    assert mine.exists()


@pytest.mark.usefixtures("broker")
def test_a_file_whose_name_is_no_text_is_named_and_the_erasure_noted(
    scene: Scene,
) -> None:
    mine = os.path.join(os.fsencode(scene.root), b"stra\xdfe.parquet")
    Path(os.fsdecode(mine)).write_bytes(b"no Parquet at all")
    os.utime(mine, (1, 1))
    done = run(scene.world.data_dir, ASKED, 30)
    [sentence] = done.left
    assert sentence.startswith("stra\\udcdfe.parquet may have such rows: ")
    [row] = rows(scene)
    assert (row["rows"], row["is_proven"]) == (1, False)


def write_anothers(scene: Scene) -> Path:
    """A new file that has the person's offset, with another key."""
    live = min(file.path for file in load(scene.root).files.values())
    mine = Path(scene.root) / "partition=0" / "part-00000-of-somebody.parquet"
    read = pq.read_table(Path(scene.root) / live, partitioning=None)
    anna = pa.array([b"anna"] * len(read), pa.binary())
    at = read.schema.get_field_index("key")
    pq.write_table(read.set_column(at, "key", anna), mine)
    return mine


@pytest.mark.usefixtures("broker")
def test_what_a_commit_has_named_since_is_no_doubt_though_it_left_again(
    scene: Scene,
) -> None:
    """As a file of an owner's that was merged; that it is new is told no more."""
    mine = write_anothers(scene)
    path = str(mine.relative_to(scene.root))
    add = {"path": path, "partitionValues": {"partition": "0"}, "dataChange": True,
           "size": mine.stat().st_size, "modificationTime": 1}  # fmt: skip
    remove = {"path": path, "deletionTimestamp": 1, "dataChange": True}

    def commit() -> None:
        for action in ({"add": add}, {"remove": remove}):
            entry = Path(entry_path(scene.root, load(scene.root).version + 1))
            entry.write_text(json.dumps(action))

    with once_the_log_is_gone(commit):
        done = run(scene.world.data_dir, ASKED, 30)
    assert (dict(done.rows), list(done.left)) == ({0: 1}, [])
    assert mine.exists()


@pytest.mark.usefixtures("broker")
def test_nothing_is_proven_beside_a_new_file_that_only_an_offset_showed(
    scene: Scene,
) -> None:
    """With the rows the offset is gone, and the last look finds nothing."""
    mine = write_anothers(scene)
    done = run(scene.world.data_dir, ASKED, 30)
    assert (dict(done.rows), done.proven) == ({0: 1}, ())
    assert mine.exists()
    [sentence] = done.left
    assert "of-somebody.parquet appeared within the last hour" in sentence


@pytest.mark.usefixtures("broker")
def test_a_round_that_read_segments_of_before_is_over_when_it_is_looked_for_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began behind the hold, with what the log gave up."""
    with when_held_again(monkeypatch, lambda: scene.put([PERSON])):
        done = run(scene.world.data_dir, ASKED, 30)
    assert (dict(done.rows), done.proven) == ({0: 1}, ())
    assert "1 such rows came meanwhile: ask again" in done.left
    assert not is_held(scene)


@contextmanager
def when_held_again(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]
) -> Iterator[None]:
    """``act`` is done behind each hold once the files of the log have gone."""
    points: list[str] = []

    def held(*given: Any) -> None:
        hold(*given)
        if "erase.after_segments" in points:
            act()

    monkeypatch.setattr(erasing, "hold", held)
    with watched(points.append):
        yield


@pytest.mark.usefixtures("broker")
def test_where_a_round_does_not_end_nothing_is_proven(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stay() -> None:
        raise NotInTime("the compactor did not stand back")

    with when_held_again(monkeypatch, stay):
        done = run(scene.world.data_dir, ASKED, 30)
    assert (dict(done.rows), done.proven) == ({0: 1}, ())
    [sentence] = done.left
    assert sentence.startswith("the compactor did not stand back, and a round may yet")


@contextmanager
def once_the_log_is_gone(act: Callable[[], object]) -> Iterator[None]:
    def pass_by(point: str) -> None:
        if point == "erase.after_segments":
            act()

    with watched(pass_by):
        yield


class Begun:
    """Files that a round had begun to write, between an erasure's two holds: one that
    has the person, half of one, and one that is somebody else's."""

    def __init__(self, scene: Scene) -> None:
        self.theirs, self.half, self.other = (
            os.path.join(scene.root, f"partition=0/{n:020d}-{n + 2:020d}-1-2-3.parquet")
            for n in (2, 4, 6)
        )
        [path] = scene.files()
        self._rows = Path(scene.root, path).read_bytes()

    def write(self) -> None:
        """Of half a file nobody can tell what is in it."""
        Path(begin(self.theirs)).write_bytes(self._rows)
        Path(begin(self.half)).write_bytes(self._rows[:-20])
        rows = pq.read_table(pa.BufferReader(self._rows)).slice(0, 1)
        pq.write_table(rows, begin(self.other))

    @property
    def there(self) -> list[str]:
        three = self.theirs, self.half, self.other
        return [path for path in three if os.path.exists(hidden(path))]


@pytest.mark.usefixtures("broker")
def test_what_a_killed_round_had_begun_since_the_log_was_there_is_deleted(
    scene: Scene,
) -> None:
    """It had read what the log gave up, and nobody goes on with it."""
    begun = Begun(scene)
    with once_the_log_is_gone(begun.write):
        done = run(scene.world.data_dir, ASKED, 30)
    assert (dict(done.rows), list(done.left)) == ({0: 1}, [])
    assert begun.there == [begun.other]
    assert traces(scene.world.data_dir, [PERSON, SECRET]) == {}


@pytest.mark.usefixtures("broker")
def test_what_somebody_may_go_on_to_write_is_left_and_told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Begun(scene)

    def stay() -> None:
        begun.write()
        raise NotInTime("the compactor did not stand back")

    with when_held_again(monkeypatch, stay):
        done = run(scene.world.data_dir, ASKED, 30)
    assert done.proven == ()
    being_written, why = done.left
    assert being_written.startswith("2 files that are being written have such rows, or")
    assert why.startswith("the compactor did not stand back, and a round may yet")
    assert begun.there == [begun.theirs, begun.half, begun.other]
    assert not is_held(scene)
    monkeypatch.undo()
    assert list(run(scene.world.data_dir, ASKED, 30).left) == []
    assert begun.there == [begun.other]


@pytest.mark.usefixtures("broker")
def test_a_merge_that_does_not_end_once_the_log_is_gone_proves_nothing(
    scene: Scene,
) -> None:
    """What it writes would be deleted beneath it."""
    begun = Begun(scene)

    def merge() -> None:
        begun.write()
        say_as(scene.world.data_dir, CompactorStatus(
            state="running", holds={"people": 1 << 62}, rewriting="people",
        ))  # fmt: skip

    with once_the_log_is_gone(merge):
        done = run(scene.world.data_dir, ASKED, 3)
    assert (dict(done.rows), done.proven) == ({0: 1}, ())
    _, why = done.left
    assert "writing files of people anew for" in why
    assert begun.there == [begun.theirs, begun.half, begun.other]
    assert len(rows(scene)) == 1


@pytest.fixture
def theirs(scene: Scene) -> Iterator[subprocess.Popen[bytes]]:
    """A process that was started as a compactor is, and says nothing itself."""
    with asleep(scene.world.data_dir, *COMPACTOR) as process:
        yield process


def say_long_ago(scene: Scene, changed_s: float, pid: int, **what: Any) -> None:
    say_as(scene.world.data_dir, CompactorStatus(pid=pid, **what))
    path = path_of(scene.world.data_dir, CompactorStatus)
    os.utime(path, (changed_s, changed_s))


def check_nothing_is_proven(
    scene: Scene,
    begun: Begun,
    theirs: subprocess.Popen[bytes],
    hang: Callable[[], None],
    timeout_s: float,
) -> None:
    """Where a compactor hangs once the log is gone: it is named, and nothing goes."""
    with once_the_log_is_gone(hang):
        done = run(scene.world.data_dir, ASKED, timeout_s)
    assert done.proven == ()
    _, why = done.left
    assert f"process {theirs.pid}" in why
    assert begun.there == [begun.theirs, begun.half, begun.other]


@pytest.mark.usefixtures("broker", "long_there")
def test_a_compactor_that_hangs_while_it_merges_once_the_log_is_gone_proves_nothing(
    scene: Scene, theirs: subprocess.Popen[bytes]
) -> None:
    """It is waited for, and soon says nothing any more."""
    begun = Begun(scene)

    def hang() -> None:
        begun.write()
        said_s = time.time() - STALE_S + 1.5
        holds_all = {"people": 1 << 62}
        say_long_ago(
            scene, said_s, theirs.pid,
            state="running", holds=holds_all, rewriting="people",
        )  # fmt: skip

    check_nothing_is_proven(scene, begun, theirs, hang, 3 * STALE_S)


@pytest.mark.usefixtures("broker", "long_there")
def test_a_compactor_that_hangs_once_the_log_is_gone_proves_nothing(
    scene: Scene, theirs: subprocess.Popen[bytes]
) -> None:
    """One that was stopped, say: it goes on when it is let to."""
    begun, ago_s = Begun(scene), time.time() - 60

    def hang() -> None:
        begun.write()
        say_long_ago(scene, ago_s, theirs.pid, state="running")

    check_nothing_is_proven(scene, begun, theirs, hang, 30)


@pytest.mark.usefixtures("broker", "long_there")
def test_nothing_is_erased_beside_a_compactor_that_hangs(
    scene: Scene, theirs: subprocess.Popen[bytes]
) -> None:
    say_long_ago(scene, time.time() - 60, theirs.pid, state="running")
    before = scene.files()
    with pytest.raises(NotErased, match=rf"process {theirs.pid}\).* ask again"):
        run(scene.world.data_dir, ASKED, 30)
    assert scene.files() == before
    assert not is_held(scene)


@pytest.mark.usefixtures("broker", "long_there")
def test_a_compactor_that_hung_and_goes_on_now_may_have_seen_no_hold(
    scene: Scene, theirs: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_on(*asked: Any) -> None:
        say_as(scene.world.data_dir, CompactorStatus(
            pid=theirs.pid, state="running", holds={"people": 1 << 62},
        ))  # fmt: skip

    say_long_ago(scene, time.time() - 60, theirs.pid, state="running")
    monkeypatch.setattr(erasing, "_wait_for_rewrite", go_on)
    with pytest.raises(NotErased, match="ask again"):
        run(scene.world.data_dir, ASKED, 30)


@pytest.mark.usefixtures("broker")
def test_nothing_is_erased_beside_a_second_compactor(
    scene: Scene, theirs: subprocess.Popen[bytes]
) -> None:
    """It may hang, and the status is the other one's."""
    before, said = scene.files(), CompactorStatus(
        pid=os.getpid(), state="running", holds={"people": 1 << 62}
    )  # fmt: skip
    say_as(scene.world.data_dir, said)
    with pytest.raises(NotErased, match=f"process {theirs.pid} is another compactor"):
        run(scene.world.data_dir, ASKED, 30)
    assert scene.files() == before
    assert not is_held(scene)
    theirs.kill()
    theirs.wait()
    assert list(run(scene.world.data_dir, ASKED, 30).left) == []


@pytest.mark.usefixtures("broker")
def test_again_it_finds_nothing_and_says_so(scene: Scene) -> None:
    run(scene.world.data_dir, ASKED, 30)
    done = run(scene.world.data_dir, ASKED, 30)
    assert (dict(done.rows), list(done.left)) == ({}, [])
    assert sorted(row["rows"] for row in rows(scene)) == [0, 1]


@pytest.mark.usefixtures("broker")
def test_a_run_counts_what_one_before_it_did_that_was_killed(scene: Scene) -> None:
    digest = records.digest_of(scene.id, "key", PERSON)
    found = scene.look()
    from jobs.erasing.table import erase

    erase(found, scene.id, digest, scene.attempts, str(scene.world.data_dir / "s"))
    done = run(scene.world.data_dir, ASKED, 30)
    assert dict(done.rows) == {0: 1}


def test_what_is_not_in_the_table_in_time_stops_it_before_anything_is_changed(
    scene: Scene,
) -> None:
    scene.world.produce(scene.topic, [Record(PERSON)])
    with pytest.raises(NotErased, match=r"people.*open transaction.*nothing was"):
        run(scene.world.data_dir, ASKED, 0.1)
    assert len(scene.shown) == 2
    assert scene.world.catalog.read(requests.pending)
    assert scene.world.catalog.read(renewals.pending) is None


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize("topic", ["people", "others"])
def test_the_hold_of_one_that_was_killed_is_in_nobodys_way(
    scene: Scene, topic: str
) -> None:
    """Records of a topic that is held keep the segments in which others' are."""
    scene.world.topic("others")
    catalog, now_ms = scene.world.catalog, int(time.time() * 1000)
    with closing(Extents(scene.world.data_dir)) as extents:
        extents.hold(topic, 600_000, HOLDER)
    scene.world.produce(scene.topic, [Record(PERSON)])
    with pytest.raises(NotErased, match="not in the tables"):  # no compactor runs here
        run(scene.world.data_dir, ASKED, 0.1)
    assert catalog.read(lambda c: holds.load(c, now_ms)) == {}


def test_a_table_that_its_owner_holds_is_left_as_it_is(scene: Scene) -> None:
    catalog, now_ms = scene.world.catalog, int(time.time() * 1000)
    catalog.change(lambda c: holds.hold(c, scene.id, holds.OWNER, now_ms, 600_000))
    before = scene.files()
    with pytest.raises(NotErased, match=r"owner holds.*people --rel.*nothing was ch"):
        run(scene.world.data_dir, ASKED, 1)
    assert scene.files() == before
    assert len(catalog.read(lambda c: holds.load(c, now_ms))) == 1
    assert scene.world.catalog.read(requests.pending) == []


@pytest.mark.usefixtures("broker")
def test_a_table_that_its_owner_holds_before_a_spark_is_there_is_left_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, searching = scene.world.catalog, erasing.searching

    @contextmanager
    def slowly(*asked: Any) -> Iterator[Search]:
        now_ms = int(time.time() * 1000)
        catalog.change(lambda c: holds.hold(c, scene.id, holds.OWNER, now_ms, 600_000))
        with searching(*asked) as wanted:
            yield wanted

    monkeypatch.setattr(erasing, "searching", slowly)
    before = scene.files()
    with pytest.raises(NotErased, match=r"owner holds.*nothing was changed"):
        run(scene.world.data_dir, ASKED, 30)
    assert scene.files() == before


@pytest.mark.usefixtures("broker")
def test_a_table_that_its_owner_holds_while_a_rewrite_is_waited_for_is_left_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, wait = scene.world.catalog, erasing._wait_for_rewrite

    def slowly(*asked: Any) -> None:
        now_ms = int(time.time() * 1000)
        catalog.change(lambda c: holds.hold(c, scene.id, holds.OWNER, now_ms, 600_000))
        wait(*asked)

    monkeypatch.setattr(erasing, "_wait_for_rewrite", slowly)
    before = scene.files()
    with pytest.raises(NotErased, match=r"owner holds.*nothing was changed"):
        run(scene.world.data_dir, ASKED, 30)
    assert scene.files() == before


def is_held(scene: Scene) -> bool:
    now_ms = int(time.time() * 1000)
    return bool(scene.world.catalog.read(lambda c: holds.load(c, now_ms)))


def run_out(scene: Scene) -> None:
    """As if what it was held for were over; wait until it is held again."""
    scene.world.catalog.change(lambda c: holds.release(c, scene.id, HOLDER))
    wait_until(lambda: is_held(scene))


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize("slow", [0, 2])
def test_the_table_is_held_however_long_a_look_takes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    look, seen = erasing.look, list[bool]()
    monkeypatch.setattr(erasing, "HOLD_AGAIN_S", 0.05)

    def slowly(*given: Any) -> Any:
        found = look(*given)
        if len(seen) == slow:
            run_out(scene)
        seen.append(is_held(scene))
        return found

    monkeypatch.setattr(erasing, "look", slowly)
    assert list(run(scene.world.data_dir, ASKED, 30).left) == []
    assert seen == [True, True, True], "two before it is over, one that proves it"
    assert not is_held(scene)


@pytest.mark.usefixtures("broker")
def test_a_table_that_is_held_no_more_behind_a_look_is_held_again_and_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a process that was stopped for long."""
    look, catalog = erasing.look, scene.world.catalog
    before = scene.files()

    def stopped(*given: Any) -> Any:
        found = look(*given)
        catalog.change(lambda c: holds.release(c, scene.id, HOLDER))
        say_as(scene.world.data_dir, CompactorStatus(
            state="running", holds={"people": 1 << 62}, rewriting="people",
        ))  # fmt: skip
        return found

    monkeypatch.setattr(erasing, "look", stopped)
    with pytest.raises(NotErased, match="writing files of people anew for"):
        run(scene.world.data_dir, ASKED, 0.3)
    assert scene.files() == before
    assert not is_held(scene)


@pytest.mark.usefixtures("broker")
def test_a_catalog_that_is_locked_for_a_while_does_not_end_the_hold(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, failed = Extents.hold, list[str]()
    monkeypatch.setattr(erasing, "HOLD_AGAIN_S", 0.05)

    def refused(self: Extents, *given: Any) -> int:
        if threading.current_thread().name == "hold" and not failed:
            failed.append(given[0])
            raise OperationalError("hold", None, Exception("database is locked"))
        return hold(self, *given)

    look, seen = erasing.look, list[bool]()

    def slowly(*given: Any) -> Any:
        found = look(*given)
        if not seen:
            wait_until(lambda: failed)
            run_out(scene)
        seen.append(is_held(scene))
        return found

    monkeypatch.setattr(Extents, "hold", refused)
    monkeypatch.setattr(erasing, "look", slowly)
    run(scene.world.data_dir, ASKED, 30)
    assert failed == ["people"]
    assert seen[0]


def test_it_needs_a_broker(scene: Scene) -> None:
    say_as(scene.world.data_dir, BrokerStatus(state="stopped"))
    with pytest.raises(NotErased, match="no broker runs on"):
        run(scene.world.data_dir, ASKED, 1)


def test_one_runs_at_a_time(scene: Scene) -> None:
    path = scene.world.data_dir / "run" / "erase.lock"
    path.parent.mkdir(exist_ok=True)
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(NotErased, match="another lakelog erase runs"):
            run(scene.world.data_dir, ASKED, 1)


def test_a_merge_of_its_files_is_waited_for(scene: Scene) -> None:
    until_ms = 1 << 62
    say_as(scene.world.data_dir, CompactorStatus(
        state="running", holds={"people": until_ms}, rewriting="people",
    ))  # fmt: skip
    with pytest.raises(NotErased, match="writing files of people anew for"):
        run(scene.world.data_dir, ASKED, 0.3)
    assert len(scene.shown) == 2
    assert scene.world.catalog.read(lambda c: holds.load(c, 0)) == {}


@pytest.mark.usefixtures("broker")
def test_what_killed_workers_had_spilled_of_it_goes(scene: Scene) -> None:
    spill, made = scene.world.data_dir / "spill", list[str]()

    def leave(root: str) -> None:
        def write(directory: str, _: list[str]) -> Merged:
            copy = Path(f"{directory}.copy")  # what ends well takes its own along
            copy.mkdir()
            copy.joinpath("0.run").write_bytes(PERSON)
            made.append(str(copy))
            return Merged(())

        attempted(MergeTask(root, "x", 0, (), b"", str(spill)), write)

    leave(scene.root)
    leave(os.path.join(os.path.dirname(scene.root), "others"))
    (spill / "tmpwhat").mkdir()
    run(scene.world.data_dir, ASKED, 30)
    assert [str(path) for path in spill.iterdir()] == made[1:]


def test_a_topic_without_a_table_has_nothing(scene: Scene) -> None:
    scene.world.topic("new")
    with pytest.raises(NotErased, match="new has no table"):
        dry_run(scene.world.data_dir, Asked("new", PERSON))
    with pytest.raises(NotErased, match="new has no table"):
        run(scene.world.data_dir, Asked("new", PERSON), 1)


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    ("changes", "is_done"), [(LOOKS_MAX - 1, True), (LOOKS_MAX, False)]
)
def test_an_owner_who_writes_as_fast_as_it_erases_is_told_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, changes: int, is_done: bool
) -> None:
    scene.put([b"b"] * (LOOKS_MAX + 1))
    offsets = iter(range(2, 2 + changes))
    really = erasing.erase

    def erase_and_change(*given: Any) -> None:
        really(*given)
        for offset in islice(offsets, 1):
            to_them = {"key": f"arrow_cast('{PERSON.decode()}', 'Binary')"}
            scene.table.update(predicate=f"offset = {offset}", updates=to_them)

    monkeypatch.setattr(erasing, "erase", erase_and_change)
    if is_done:
        assert list(run(scene.world.data_dir, ASKED, 30).left) == []
        assert scene.left() == []
    else:
        with pytest.raises(NotErased, match="all the time"):
            run(scene.world.data_dir, ASKED, 30)


@pytest.mark.usefixtures("broker")
def test_a_refusal_that_is_not_its_owners_doing_is_told_in_its_own_words(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = scene.files()
    monkeypatch.setattr(in_flight, "AHEAD_MS", 0)  # what is written is old at once
    with pytest.raises(NotErased, match=r"waited so long for its commit.*; ask again"):
        run(scene.world.data_dir, ASKED, 30)
    assert scene.files() == before
