"""Rows leave the table and all of its past; nothing else does."""

import json
import os
import shutil
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker.failpoints import watch
from broker.storage.directory import DataDirectory
from broker.storage.files import PosixFiles
from jobs import space
from jobs.check import check_data_directory
from jobs.erasing import table as erasing
from jobs.erasing.expression import passed_over
from jobs.erasing.partitions import Partitions
from jobs.erasing.search import Found
from jobs.erasing.table import NotErased, look
from jobs.merging import room
from jobs.merging.names import mark_of, merged_name
from lakehouse import in_flight, warehouse_names
from lakehouse.errors import CommitRefused, LocationRefused
from lakehouse.in_flight import begin
from lakehouse.log.actions import parse_commit
from lakehouse.log.delta_log import entry_path, load, read_entry
from tests.jobs.erasing.scene import (
    PERSON,
    REQUEST,
    SECRET,
    Scene,
    erase_killed,
    mark,
    watched,
)
from tests.jobs.world import World
from tests.support.bitmaps import delete_rows, stored
from tests.support.cloned_back import clone_back
from tests.support.tables import Writer
from tests.support.traces import traces
from tests.support.warehouses import AWAY, unmount


@pytest.fixture
def scene(world: World) -> Scene:
    made = Scene(world)
    made.put([b"a", PERSON, b"b"])
    made.put([b"c", b"d"])
    made.put([PERSON, b"e"])
    return made


REST = [(0, b"a"), (2, b"b"), (3, b"c"), (4, b"d"), (6, b"e")]


def problems(scene: Scene) -> list[str]:
    return check_data_directory(scene.world.data_dir).problems


def test_rows_leave_a_table_whose_owner_put_a_clone_of_it_back(scene: Scene) -> None:
    clone_back(scene.root)
    scene.erase()
    assert scene.shown == REST
    assert not scene.left()
    assert not problems(scene)


def test_the_rows_and_their_bytes_are_gone_and_the_others_as_they_were(
    scene: Scene,
) -> None:
    before = {row.offset: row for row in scene.world.rows(scene.topic)}
    found = scene.look()
    assert (found.rows, found.past_files, found.unsure) == ({0: 2}, {}, [])
    scene.erase(found)
    assert scene.left() == []
    assert scene.shown == REST
    assert scene.world.rows(scene.topic) == [before[offset] for offset, _ in REST]
    assert len(scene.files()) == len(load(scene.root).files) == 3
    assert problems(scene) == []
    assert not scene.look().live


def test_the_log_tells_what_was_done_and_not_to_whom(scene: Scene) -> None:
    scene.erase()
    version = load(scene.root).version
    commit = parse_commit(version, read_entry(scene.root, version))
    assert commit.info["operation"] == "LAKELOG ERASE"
    assert commit.info["lakelog.erased"] == {"request": REQUEST, "0": [2, 3, 2]}
    assert commit.erased == {0: (2, 3, 2)}
    assert commit.is_owners  # who serves records from memory is to look again
    assert commit.miscounted is None


def test_a_file_of_which_nothing_stays_has_no_other_in_its_place(
    scene: Scene,
) -> None:
    scene.put([PERSON, PERSON])
    scene.erase()
    assert scene.shown == REST
    scene.put([b"f"])  # the end of the table is where it was
    assert scene.shown == [*REST, (9, b"f")]
    assert problems(scene) == []


def test_what_owners_deleted_or_renamed_goes_from_older_versions(
    scene: Scene,
) -> None:
    scene.table.delete("offset = 1")
    nobody = "arrow_cast('nobody', 'Binary')"
    scene.table.update({"key": nobody, "value": nobody}, predicate="offset = 5")
    assert [key for _, key in scene.shown].count(PERSON) == 0
    assert scene.left()
    found = scene.look()
    assert (found.rows, found.past_files) == ({}, {0: 2})
    scene.erase(found)
    assert scene.left() == []
    assert (5, b"nobody") in scene.shown  # what he made of it is his


def test_rows_that_are_only_marked_as_deleted_are_written_no_more(
    scene: Scene,
) -> None:
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 0]
    writer = Writer.__new__(Writer)
    writer.path = scene.root
    delete_rows(writer, {path: [1, 2]})  # the person, and b
    found = scene.look()
    assert found.rows == {0: 2}
    scene.erase(found)
    assert scene.left() == []
    assert scene.shown == [row for row in REST if row[1] != b"b"]
    assert all(file.vector is None for file in load(scene.root).files.values())


def test_a_cleaned_file_goes_on_saying_up_to_where_it_is(world: World) -> None:
    scene = Scene(world, {"cleanup.policy": "compact"})
    scene.put([b"a", PERSON])
    [file] = load(scene.root).files.values()
    name = merged_name([file], "1-2-c", mark_of("x"))
    assert mark_of(name) is None
    marked = name.replace("-1.parquet", "-1-2-0.parquet")
    os.rename(Path(scene.root) / file.path, Path(scene.root) / marked)
    entry = Path(entry_path(scene.root, load(scene.root).version))
    entry.write_text(entry.read_text().replace(file.path, marked))
    scene.erase()
    [left] = load(scene.root).files.values()
    assert mark_of(left.path) == mark_of(marked) != None  # noqa: E711
    assert scene.shown == [(0, b"a")]


def test_a_table_that_rows_may_not_leave_is_left_alone(scene: Scene) -> None:
    scene.table.alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(NotErased, match="appendOnly is true"):
        scene.look()


def test_a_file_that_an_owner_may_be_about_to_commit_is_told_and_stays(
    scene: Scene,
) -> None:
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 5]
    copy = Path(scene.root) / "partition=0" / "part-00000-of-somebody.parquet"
    copy.write_bytes((Path(scene.root) / path).read_bytes())
    found = scene.look()
    assert found.past == []
    [sentence] = found.unsure
    assert "part-00000-of-somebody.parquet appeared within the last hour" in sentence
    os.utime(copy, (1, 1))
    assert scene.look().past == [str(copy.relative_to(scene.root))]


def test_a_copy_of_an_owners_beside_the_change_data_feed_may_be_new_too(
    scene: Scene,
) -> None:
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 5]
    copies = ["_change_data/partition=0/a.parquet", "_change_data_of_mine/a.parquet"]
    for copy in copies:
        Path(scene.root, copy).parent.mkdir(parents=True)
        shutil.copy(os.path.join(scene.root, path), os.path.join(scene.root, copy))
    found = scene.look()
    assert (found.past, list(found.kept)) == (copies[:1], copies[1:])


def test_what_a_killed_statement_of_an_owners_had_begun_is_searched_too(
    scene: Scene,
) -> None:
    """As the library names a file until it is whole."""
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 5]
    begun = Path(scene.root, "partition=0", "part-0-c000.zstd.parquet#1")
    shutil.copy(os.path.join(scene.root, path), begun)
    [unsure] = scene.look().unsure
    assert unsure.startswith("partition=0/part-0-c000.zstd.parquet#1 appeared within")
    os.utime(begun, (0, 0))
    scene.erase()
    assert scene.left() == []
    assert not begun.exists()


@pytest.mark.parametrize("name", ["_notes.parquet", "partition=0/.mine.parquet"])
def test_what_an_expression_does_not_look_into_is_told_and_stays(
    scene: Scene, name: str
) -> None:
    """It is no Spark table's file, nor a VACUUM's: its owner's, whatever it holds."""
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 3]
    mine = Path(scene.root, name)
    shutil.copy(os.path.join(scene.root, path), mine)
    os.utime(mine, (1, 1))

    def nothing(_: str, paths: Partitions) -> Found:
        """As an expression that is true of no row."""
        return Found({}, {}, passed_over(paths))

    found = look(scene.root, scene.id, nothing)
    [sentence] = found.unsure
    assert sentence.startswith(f"{name} may have such rows: Spark passes over")
    scene.erase(found)
    assert mine.exists()


@pytest.mark.parametrize("key", [PERSON, b"nobody"])
def test_what_is_its_owners_below_the_table_and_no_file_of_it_is_told_and_stays(
    scene: Scene, key: bytes
) -> None:
    cities = os.path.join(scene.root, "_mine", "cities")
    deltalake.write_deltalake(cities, pa.table({"city": ["Rome", "Oslo"]}))
    deltalake.DeltaTable(cities).create_checkpoint()
    notes = Path(scene.root, "_notes", "export.parquet")
    notes.parent.mkdir()
    pq.write_table(pa.table({"city": ["Rome"]}), notes)
    mine = [path for one in ("_mine", "_notes") for path in files_below(scene, one)]
    for path in mine:
        os.utime(path, (1, 1))
    found = scene.look(key)
    assert found.past == []
    assert [sentence.split(" ")[0] for sentence in found.unsure] == [
        "_mine/cities", "_notes/export.parquet",
    ]  # fmt: skip
    assert found.kept_files == {-1: 2}
    scene.erase(found)
    assert all(path.exists() for path in mine)
    assert deltalake.DeltaTable(cities).to_pyarrow_table().num_rows == 2


def files_below(scene: Scene, directory: str) -> list[Path]:
    found = Path(scene.root, directory).rglob("*")
    return [path for path in found if path.is_file()]


def test_a_file_that_nobody_can_read_goes_if_the_log_or_its_name_says_it_is_dead(
    scene: Scene,
) -> None:
    [first] = [f.path for f in load(scene.root).files.values() if f.first_offset == 0]
    scene.table.delete("offset = 0")
    ours = f"partition=0/{1:020d}-{3:020d}-1-2-3.parquet"
    owners = "partition=0/part-0.parquet"
    for path in (first, ours, owners):
        Path(scene.root, path).write_bytes(b"half of it")
        os.utime(Path(scene.root, path), (1, 1))
    found = scene.look(b"nobody")
    assert found.past == sorted([first, ours])
    [sentence] = found.unsure
    assert sentence.startswith(f"{owners} may have such rows: ")


@pytest.mark.parametrize("before", ["", "file:{root}/"])
def test_a_file_that_nobody_can_read_is_dead_by_whatever_name_it_left(
    scene: Scene, before: str
) -> None:
    path = "partition=0/part-0 of somebody.parquet"
    Path(scene.root, path).write_bytes(b"half of it")
    named = quote(before.format(root=scene.root) + path, safe="/:=")
    left = {"remove": {"path": named, "deletionTimestamp": 1, "dataChange": True}}
    entry = Path(entry_path(scene.root, load(scene.root).version + 1))
    entry.write_text(json.dumps(left))
    found = scene.look(b"nobody")
    assert (found.past, found.unsure) == ([path], [])


def test_older_versions_are_found_in_files_whose_names_have_no_end(
    scene: Scene,
) -> None:
    """As some engines call theirs."""
    [old] = [f for f in load(scene.root).files.values() if f.first_offset == 0]
    bare = "partition=0/20261128_101010_00009_8t2sc_f3b5d1c2"
    scene.replace(old.path, bare)
    assert scene.look().rows == {0: 2}
    scene.replace(bare, "partition=0/part-00000-b.c000.snappy.parquet")
    scene.erase()
    assert not Path(scene.root, bare).exists()
    assert scene.left() == []
    assert scene.shown == REST


def test_older_versions_of_rows_in_files_that_lie_anywhere_go_with_them(
    scene: Scene,
) -> None:
    """As with ``delta.randomizeFilePrefixes``: a directory says no partition."""
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 3]
    for place, key in [("xY", b"earlier"), ("jF", PERSON), ("kQ", b"later")]:
        path, before = f"{place}/part-00000-a.c000.snappy.parquet", path
        scene.replace(before, path, key)
    found = scene.look()
    assert found.past_files == {0: 3}
    assert found.unsure == []
    scene.erase(found)
    assert not [path for one in ("xY", "jF") for path in files_below(scene, one)]
    assert [key for _, key in scene.shown] == [b"a", b"b", b"later", b"later", b"e"]


def test_rows_leave_files_of_the_table_that_lie_anywhere(scene: Scene) -> None:
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 0]
    scene.replace(path, "xY/part-00000-a.c000.snappy.parquet")
    scene.erase()
    assert (scene.left(), scene.shown) == ([], REST)
    assert problems(scene) == []


def test_a_row_of_which_nobody_knows_the_partition_is_not_taken_for_another(
    scene: Scene,
) -> None:
    """An owner keeps what another topic has; its offsets are like any topic's."""
    mine = Path(scene.root, "_notes", "of_another_topic.parquet")
    mine.parent.mkdir()
    pq.write_table(pa.table({"offset": [1, 2], "key": [b"x", b"y"]}), mine)
    os.utime(mine, (1, 1))
    found = scene.look()
    assert (found.rows, found.past) == ({0: 2}, [])
    [sentence] = found.unsure
    assert sentence.startswith("_notes/of_another_topic.parquet may have such rows")
    scene.erase(found)
    assert mine.exists()
    assert scene.look(b"nobody").unsure == []


def test_what_a_killed_worker_had_begun_is_nobodys_and_goes(scene: Scene) -> None:
    """Half a file cannot be searched, and records of it stand elsewhere."""
    path = f"partition=0/{0:020d}-{9:020d}-1-2-3.parquet"
    half = Path(begin(os.path.join(scene.root, path)))
    half.write_bytes(b"PAR1" + SECRET)
    found = scene.look()
    assert found.past == [str(half.relative_to(scene.root))]
    assert found.unsure == []
    scene.erase(found)
    assert scene.left() == []


def test_what_its_owner_restores_meanwhile_is_not_deleted(scene: Scene) -> None:
    before = load(scene.root).version
    scene.table.delete("offset = 1")
    found = scene.look()
    assert (found.rows, found.past_files) == ({0: 1}, {0: 1})
    scene.table.restore(before)
    with pytest.raises(CommitRefused):
        scene.erase(found)
    scene.erase()
    assert (scene.left(), scene.shown) == ([], REST)


def test_what_its_owner_restores_behind_a_commit_is_not_deleted(scene: Scene) -> None:
    before = load(scene.root).version

    def restore(point: str) -> None:
        if point == "erase.before_delete":
            watch(None)
            scene.table.restore(before)

    with watched(restore), pytest.raises(CommitRefused, match="is of the table at"):
        scene.erase()
    assert len(scene.shown) == 7
    scene.erase()
    assert (scene.left(), scene.shown) == ([], REST)


def test_a_disk_in_the_place_of_the_tables_one_is_neither_erased_on_nor_proven_of(
    tmp_path: Path,
) -> None:
    """A backup has the same table, and rows that nobody asked to be forgotten there."""
    data, fast = tmp_path / "data", tmp_path / "fast"
    DataDirectory.claim(PosixFiles(), data, "a test", None, {"fast": fast}).close()
    world = World(data)
    scene = Scene(world, {warehouse_names.CONFIG: "fast"})
    scene.put([b"a", PERSON])
    found = scene.look()
    unmount(fast, "another")
    shutil.copytree(fast.with_name(f"{fast.name}{AWAY}") / "people", fast / "people")
    before = sorted(fast.rglob("*"))
    with pytest.raises(LocationRefused, match="the right disk"):
        scene.look()
    with pytest.raises(LocationRefused, match="the right disk"):
        scene.erase(found)
    assert sorted(fast.rglob("*")) == before
    scene.steps.stop()
    world.close()


def test_a_file_by_another_name_stops_it(scene: Scene) -> None:
    """Of the same directory, as an entry may name it."""
    [file] = [f for f in load(scene.root).files.values() if f.first_offset == 0]
    add = {"path": f"./{file.path}", "partitionValues": {"partition": "0"},
           "size": file.size, "modificationTime": 1, "dataChange": True,
           "stats": json.dumps({"numRecords": file.rows})}  # fmt: skip
    remove = {"path": file.path, "deletionTimestamp": 1, "dataChange": True}
    entry = Path(entry_path(scene.root, load(scene.root).version + 1))
    entry.write_text(json.dumps({"remove": remove}) + "\n" + json.dumps({"add": add}))
    with pytest.raises(NotErased, match="not by that name"):
        scene.look()


def test_a_file_whose_commit_was_lost_is_told_and_stays(scene: Scene) -> None:
    """It may be the only copy of what others produced."""
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 5]
    lost = Path(scene.root) / f"partition=0/{7:020d}-{9:020d}-1-2-3.parquet"
    lost.write_bytes((Path(scene.root) / path).read_bytes())
    found = scene.look()
    assert found.past == []
    assert "has records that are not in the table" in found.unsure[0]
    done = lost.with_name(f"{5:020d}-{7:020d}-1-2-3.parquet")  # these are in it
    lost.rename(done)
    assert scene.look().past == [str(done.relative_to(scene.root))]


def test_who_is_faster_wins_and_nothing_of_his_is_lost(scene: Scene) -> None:
    found = scene.look()
    scene.table.update({"topic": "'theirs'"}, predicate="offset = 0")
    with pytest.raises(CommitRefused):
        scene.erase(found)
    assert len(scene.shown) == 7
    scene.erase()
    assert scene.shown == REST
    assert scene.left() == []


def test_a_disk_that_is_nearly_full_is_left_to_the_log_and_it_is_said(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = scene.files()
    monkeypatch.setattr(room, "ROOM_BYTES", 1 << 62)
    monkeypatch.setattr(space, "SHARE", 1)
    with pytest.raises(NotErased, match=r"bytes are free.*: make room, and ask again"):
        scene.erase()
    assert scene.files() == before
    monkeypatch.undo()
    scene.erase()
    assert scene.left() == []


def test_a_commit_has_no_more_files_than_were_written_in_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waited for too long is refused: none would ever be committed else."""
    scene.put([PERSON, *(b"%d" % number for number in range(100))])
    sizes = {file.path: file.size for file in load(scene.root).files.values()}
    before = load(scene.root).version
    monkeypatch.setattr(erasing, "GATHER_S", 0.0)
    scene.erase()
    after = load(scene.root).version
    assert after - before == 3
    entries = [
        read_entry(scene.root, version) for version in range(before + 1, after + 1)
    ]
    gone = [path for one in entries for path in parse_commit(1, one).removes]
    assert gone == sorted(gone, key=lambda path: -sizes[path])
    assert scene.left() == []
    assert problems(scene) == []


def test_what_was_written_for_a_commit_that_is_refused_is_deleted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = scene.files()
    monkeypatch.setattr(in_flight, "AHEAD_MS", 0)
    with pytest.raises(CommitRefused, match="waited so long for its commit"):
        scene.erase()
    assert scene.files() == before


def test_what_was_written_for_a_commit_before_a_file_that_fails_is_deleted(
    scene: Scene,
) -> None:
    before = scene.files()

    def fail(point: str) -> None:
        if point == "erase.after_file":
            raise ValueError("it fails")

    with watched(fail), pytest.raises(NotErased, match="it fails"):
        scene.erase()
    assert scene.files() == before


@pytest.mark.parametrize(
    "point",
    [
        "erase.after_file", "erase.after_entry", "erase.after_commit",
        "erase.before_delete", "erase.after_delete",
    ],
)  # fmt: skip
def test_what_was_interrupted_is_finished_by_the_next(scene: Scene, point: str) -> None:
    erase_killed(scene, point)
    assert {row for row in scene.shown if row[1] != PERSON} == set(REST)
    scene.erase()
    assert scene.left() == []
    assert scene.shown == REST
    assert problems(scene) == []


@pytest.mark.parametrize("point", ["erase.after_older", "erase.after_delete"])
def test_an_older_version_that_only_an_offset_shows_goes_also_if_it_is_killed(
    world: World, point: str
) -> None:
    """Its owner corrected the key. The offset is known for as long as the row is."""
    scene = Scene(world)
    scene.put([b"anna", b"a"])
    [older] = scene.files()
    scene.replace(older, "partition=0/part-00000-corrected.parquet", key=PERSON)

    erase_killed(scene, point)
    if scene.look().live:
        scene.erase()
    assert scene.files() == set()


def corrected_below_a_vector(scene: Scene) -> str:
    """The path of a file of the table that has, marked, what its owner corrected: the
    person's row stands in another one, as UPDATE leaves them."""
    [older] = scene.files()
    newer = "partition=0/part-00000-corrected.parquet"
    scene.replace(older, newer, key=PERSON, offset=0)
    mark(scene, older, stored(scene.root, [0], UUID(int=1)))
    return older


@pytest.mark.parametrize(
    "point",
    [
        "erase.after_older", "erase.after_file", "erase.after_entry",
        "erase.after_commit", "erase.before_delete", "erase.after_delete", None,
    ],
)  # fmt: skip
@pytest.mark.parametrize("number", [1, 2])
def test_an_older_version_below_a_deletion_vector_goes_wherever_it_is_killed(
    world: World, point: str | None, number: int
) -> None:
    scene = Scene(world)
    scene.put([b"anna", b"a"])
    older = corrected_below_a_vector(scene)
    found = scene.look()
    assert ([file.path for file in found.marked], found.rows) == ([older], {0: 1})
    assert found.past_files == {0: 1}
    if point is not None:
        erase_killed(scene, point, 1 if point == "erase.after_older" else number)
    scene.erase()
    assert scene.left() == list(traces(Path(scene.root), [b"anna"])) == []
    assert scene.shown == [(1, b"a")]
    assert problems(scene) == []
    assert (scene.look().marked, scene.look().past) == ([], [])


def test_a_constraint_and_a_deletion_vector_are_in_no_erasures_way(
    scene: Scene,
) -> None:
    """The library would leave the file in; and no row is new that it could judge."""
    scene.table.alter.add_constraint({"some": "offset >= 0"})
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 0]
    mark(scene, path, [2])
    entry = Path(entry_path(scene.root, load(scene.root).version))
    features = '"writerFeatures": ["checkConstraints", '
    entry.write_text(entry.read_text().replace('"writerFeatures": [', features))
    scene.erase()
    assert (scene.left(), scene.shown) == ([], [row for row in REST if row[0] != 2])
    assert problems(scene) == []


def test_rows_of_others_below_deletion_vectors_stay_where_they_are(
    scene: Scene,
) -> None:
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 3]
    mark(scene, path, [0])
    found = scene.look()
    assert found.marked == []
    scene.erase(found)
    assert path in load(scene.root).files


def test_a_vector_that_cannot_be_read_stops_it(world: World) -> None:
    scene = Scene(world)
    scene.put([b"anna", b"a"])
    corrected_below_a_vector(scene)
    [vector] = Path(scene.root).rglob("*.bin")
    vector.write_bytes(b"torn")
    with pytest.raises(NotErased, match="cannot be searched"):
        scene.look()


def test_a_directory_that_is_gone_with_its_files_ends_no_erasure(scene: Scene) -> None:
    [path] = [f.path for f in load(scene.root).files.values() if f.first_offset == 5]
    elsewhere = Path(scene.root) / "aB" / "part-00000-of-somebody.parquet"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes((Path(scene.root) / path).read_bytes())
    os.utime(elsewhere, (1, 1))
    found = scene.look()
    assert found.past == ["aB/part-00000-of-somebody.parquet"]
    shutil.rmtree(elsewhere.parent)
    scene.erase(found)
    assert (scene.left(), scene.shown) == ([], REST)
