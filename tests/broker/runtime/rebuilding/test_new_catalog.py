"""A catalog takes its place whole, and what was there is kept."""

import sqlite3

import pytest

from broker.catalog import producers, released_ends, topics, transactions
from broker.catalog.catalog import Catalog
from broker.runtime.rebuilding.new_catalog import STAGED, aside_name, place, stage
from broker.runtime.rebuilding.orphans import OpenPart, ended
from broker.runtime.rebuilding.plan import Plan, PlannedTopic
from broker.topics.topic import Topic

LIVING = Topic(5, b"a" * 16, "a", 3, {"retention.ms": "1"})
DELETED = Topic(2, b"b" * 16, "b", 1)
PLAN = Plan(
    [
        PlannedTopic(DELETED, {}, {}, is_deleted=True),
        PlannedTopic(LIVING, {1: 4}, {2: 6}),
    ],
    last_number=9,
)

READY = "catalog.db.lost-7.new"
"""The new catalog of one that was killed while it moved what was there."""


def made(data_dir, plan=PLAN, orphans=()):
    return stage(
        data_dir, plan, list(orphans),
        first_producer_id=70_000, cluster_id="c" * 22, now_ms=10,
    )  # fmt: skip


def test_it_holds_what_was_planned_and_repeats_nothing(tmp_path):
    orphans = ended([OpenPart(7, 0, (5, 1), 6, 100)], [], 10)
    place(tmp_path, made(tmp_path, orphans=orphans), "catalog.db.lost-1")
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        assert catalog.cluster_id == "c" * 22
        assert catalog.read(topics.load) == [LIVING]
        [gone] = catalog.read(topics.list_deleted)
        assert (gone.topic, gone.deleted_ms) == (DELETED, 10)
        assert catalog.read(topics.load_log_starts) == {(5, 1): 4}
        assert catalog.read(released_ends.load) == {(5, 2): 6}
        assert set(catalog.read(transactions.load)) == {"lakelog-rebuild-7-0"}
        assert catalog.change(producers.next_block)[0] == 70_000
        new = catalog.change(lambda c: topics.create(c, "new", b"n" * 16, 1, {}, 1))
        assert new.number == 10


def test_without_topics_it_is_empty(tmp_path):
    place(tmp_path, made(tmp_path, Plan()), "catalog.db.lost-1")
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        assert catalog.read(topics.load) == []


def test_what_was_in_its_place_is_kept_with_its_log(tmp_path):
    for part in ("", "-wal", "-shm"):
        (tmp_path / f"catalog.db{part}").write_text(f"old{part}")
    (tmp_path / f"{STAGED}-wal").write_text("of an earlier try")
    moved = place(tmp_path, made(tmp_path), "catalog.db.lost-1")
    assert [path.read_text() for path in moved] == ["old", "old-wal", "old-shm"]
    assert [path.name for path in moved] == [
        "catalog.db.lost-1", "catalog.db.lost-1-wal", "catalog.db.lost-1-shm",
    ]  # fmt: skip
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"catalog.db", *(path.name for path in moved)}
    with sqlite3.connect(tmp_path / "catalog.db") as found:
        assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_topic_that_cannot_be_stored_leaves_no_catalog(tmp_path):
    twice = Plan([PlannedTopic(LIVING, {}, {}), PlannedTopic(LIVING, {}, {})])
    with pytest.raises(Exception, match="UNIQUE"):
        made(tmp_path, twice)
    assert not (tmp_path / "catalog.db").exists()


@pytest.mark.parametrize(
    ("there", "name"),
    [
        ([], "catalog.db.lost-9"),
        (["catalog.db", "catalog.db-wal", STAGED], "catalog.db.lost-9"),
        (["catalog.db-wal", "catalog.db.lost-7", READY], "catalog.db.lost-7"),
        (["catalog.db", "catalog.db-wal", READY], "catalog.db.lost-7"),
        (["catalog.db-shm", "catalog.db.lost-7", "catalog.db.lost-7-wal", READY],
         "catalog.db.lost-7"),
        (["catalog.db-wal", "catalog.db.lost-7", "catalog.db.lost-7-wal", READY],
         "catalog.db.lost-9"),
        (["catalog.db.lost-7", READY], "catalog.db.lost-7"),
        (["catalog.db-wal", "catalog.db.lost-7"], "catalog.db.lost-9"),
        ([STAGED, "catalog.db-wal", "catalog.db.lost-7"], "catalog.db.lost-9"),
    ],
)  # fmt: skip
def test_what_a_killed_one_had_begun_to_move_keeps_its_name(tmp_path, there, name):
    """A log under another name than its file's would be lost with what it says."""
    for one in there:
        (tmp_path / one).touch()
    assert aside_name(tmp_path, 9) == name


def test_a_log_is_not_laid_beside_a_catalog_that_was_kept_before(tmp_path):
    """SQLite would play it into that."""
    (tmp_path / "catalog.db.lost-7").write_text("kept by an earlier rebuild")
    (tmp_path / "catalog.db-wal").write_text("of a later one")
    made(tmp_path)  # and killed
    moved = place(tmp_path, made(tmp_path), aside_name(tmp_path, 9))
    assert [path.name for path in moved] == ["catalog.db.lost-9-wal"]


def test_what_is_left_of_a_killed_one_goes(tmp_path):
    for name in ("catalog.db", "catalog.db.lost-7", READY):
        (tmp_path / name).touch()
    place(tmp_path, made(tmp_path), aside_name(tmp_path, 9))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"catalog.db", "catalog.db.lost-7", "catalog.db.lost-9"}
