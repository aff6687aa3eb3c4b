"""Where a table ends is what its commits prove, whatever else stands in its log."""

import os
import shutil
from pathlib import Path

import deltalake
import pytest

from lakehouse import ends
from lakehouse.log.commit import commit_files
from lakehouse.log.delta_log import entry_path, follow, load, table_ends, unproven_ends
from tests.support.tables import TOPIC_ID, Writer, rows

FAR = 10**12


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(1, 5, 9)
    return writer


def claim(writer: Writer, version: int, application: str = f"{TOPIC_ID}/0") -> None:
    """An owner's commit with a ``txn`` as the compactor's have."""
    said = deltalake.Transaction(application, version)
    deltalake.write_deltalake(
        writer.path,
        rows(0, [3]),
        mode="append",
        commit_properties=deltalake.CommitProperties(app_transactions=[said]),
    )


@pytest.mark.parametrize("version", [FAR, 11, 4])
def test_what_an_owner_says_moves_no_end_and_is_told(
    writer: Writer, version: int
) -> None:
    followed = load(writer.path)
    claim(writer, version)
    follow(followed)
    for snapshot in (followed, load(writer.path)):
        assert table_ends(snapshot) == {0: 10, 1: 9}
        why = unproven_ends(snapshot, TOPIC_ID) or ""
        assert f"partition 0 ends at offset {version}; it is taken to end at 10" in why


def test_the_next_commit_goes_on_where_the_table_ends(writer: Writer) -> None:
    claim(writer, FAR)
    claim(writer, FAR, f"{TOPIC_ID}/1")
    claim(writer, 1 << 60, TOPIC_ID)
    writer.add(0, 10, 20)
    snapshot = load(writer.path)
    assert table_ends(snapshot) == {0: 20, 1: 9}
    assert snapshot.transactions[TOPIC_ID] == writer.round
    assert "partition 1 ends" in (unproven_ends(snapshot, TOPIC_ID) or "")
    writer.add(1, 9, 12)
    assert unproven_ends(load(writer.path), TOPIC_ID) is None
    table = deltalake.DeltaTable(writer.path)
    assert table.transaction_version(f"{TOPIC_ID}/0") == 20
    again = commit_files(writer.path, TOPIC_ID, writer.round, {1: (9, 12)}, [])
    assert again.was_there


def test_an_end_that_was_claimed_first_is_none(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    claim(writer, FAR)
    assert table_ends(load(writer.path)) == {}
    writer.add(0, 100, 110)
    assert table_ends(load(writer.path)) == {0: 110}


def test_an_owners_own_transactions_are_his(writer: Writer) -> None:
    for application in ("his job", "his/7", f"{TOPIC_ID}/x", f"{TOPIC_ID}/0/1"):
        claim(writer, 7, application)
        assert load(writer.path).transactions[application] == 7
    assert unproven_ends(load(writer.path), TOPIC_ID) is None


def test_a_log_entry_that_stands_there_twice_moves_no_end(writer: Writer) -> None:
    writer.add(0, 10, 20)
    for version, copied in ((4, 3), (5, 1)):
        shutil.copy(entry_path(writer.path, copied), entry_path(writer.path, version))
    snapshot = load(writer.path)
    assert table_ends(snapshot) == {0: 20, 1: 9}
    assert "ends at offset 10" in (unproven_ends(snapshot, TOPIC_ID) or "")


def test_a_range_that_does_not_follow_moves_no_end(writer: Writer) -> None:
    entry = Path(entry_path(writer.path, 1)).read_text()
    for old, new in (("[0,10]", f"[12,{FAR}]"), ('"version":10', f'"version":{FAR}')):
        assert old in entry
        entry = entry.replace(old, new)
    Path(entry_path(writer.path, 3)).write_text(entry)
    assert table_ends(load(writer.path)) == {0: 10, 1: 9}


@pytest.mark.parametrize(
    "text",
    ["7", "[1]", '{"0":5}', '{"0":["a","b"]}', '{"x":[]}', '{"1":[5,Infinity]}'],
)
def test_ranges_of_any_shape_are_none(writer: Writer, text: str) -> None:
    entry = Path(entry_path(writer.path, 2)).read_text()
    assert '{"1":[5,9]}' in entry
    Path(entry_path(writer.path, 2)).write_text(entry.replace('{"1":[5,9]}', text))
    assert table_ends(load(writer.path)) == {0: 10}


def checkpointed(writer: Writer, oldest_kept: int = 0) -> None:
    deltalake.DeltaTable(writer.path).create_checkpoint()
    for version in range(oldest_kept):
        os.unlink(entry_path(writer.path, version))


def test_a_checkpoint_does_not_make_a_claim_true(writer: Writer) -> None:
    claim(writer, FAR)
    claim(writer, 1 << 60, TOPIC_ID)
    checkpointed(writer)
    snapshot = load(writer.path)
    assert table_ends(snapshot) == {0: 10, 1: 9}
    assert snapshot.transactions[TOPIC_ID] == 2
    assert unproven_ends(snapshot, TOPIC_ID) is not None
    writer.add(0, 10, 20)
    assert table_ends(load(writer.path)) == {0: 20, 1: 9}
    checkpointed(writer)
    assert unproven_ends(load(writer.path), TOPIC_ID) is None


def test_where_nothing_else_is_left_the_rows_say_what_a_claim_does_not(
    writer: Writer,
) -> None:
    claim(writer, FAR)
    checkpointed(writer, oldest_kept=3)
    assert table_ends(load(writer.path)) == {0: 10, 1: 9}


@pytest.mark.parametrize("oldest_kept", [0, 4])
def test_behind_a_checkpoint_ends_outlive_the_owners_delete(
    writer: Writer, oldest_kept: int
) -> None:
    writer.add(0, 10, 30, missing=range(10, 30))
    deltalake.DeltaTable(writer.path).delete("offset >= 7")
    checkpointed(writer, oldest_kept)
    assert table_ends(load(writer.path)) == {0: 30, 1: 9}
    writer.add(0, 30, 40)
    assert table_ends(load(writer.path)) == {0: 40, 1: 9}


def test_not_the_whole_log_is_read_for_what_its_owner_deleted(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.log.delta_log.LOOKED_BACK", 3)
    deltalake.DeltaTable(writer.path).delete("partition = 1")
    for first in range(10, 60, 10):
        writer.add(0, first, first + 10)
    checkpointed(writer)
    Path(entry_path(writer.path, 4)).write_text("never read")
    assert ends.LOOKED_BACK > 3
    assert table_ends(load(writer.path)) == {0: 60, 1: 9}
