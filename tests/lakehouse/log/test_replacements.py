"""Files in the place of others: the same rows, or nothing, whoever comes between."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import deltalake
import pytest

from jobs.check_commits import CommitAudit
from jobs.check_report import Report
from lakehouse.errors import CommitLost, CommitRefused
from lakehouse.in_flight import AHEAD_MS, keep
from lakehouse.index import OffsetIndex
from lakehouse.log import library
from lakehouse.log.actions import DataFile, parse_commit
from lakehouse.log.commit import Committed, commit_files, remove_files, replace_files
from lakehouse.log.delta_log import (
    Snapshot,
    entry_path,
    entry_versions,
    follow,
    load,
    read_entry,
    table_ends,
)
from lakehouse.log.history import round_of
from lakehouse.new_file import NewFile
from tests.support.tables import TOPIC_ID, Writer, rows, write_file

NOW_MS = 1_800_000_000_000


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    writer = Writer(str(tmp_path))
    for first in range(0, 40, 10):
        writer.add(0, first, first + 10)
    writer.add(1, 0, 10)
    return writer


def of(snapshot: Snapshot, partition: int = 0) -> list[DataFile]:
    files = OffsetIndex.of(snapshot).files_of(partition).files
    return list(files)


def merged(writer: Writer, first: int, end: int) -> NewFile:
    return write_file(writer.path, f"merged-{first}-{end}", rows(0, range(first, end)))


def replace(
    writer: Writer,
    gone: list[DataFile],
    files: list[NewFile],
    snapshot: Snapshot,
    **more: Callable[[], None],
) -> Committed:
    assert snapshot.metadata is not None
    return replace_files(
        writer.path, TOPIC_ID, gone, files, now_ms=NOW_MS, snapshot=snapshot,
        schema=snapshot.metadata.schema_string, **more,
    )  # fmt: skip


def offsets(writer: Writer, partition: int = 0) -> list[int]:
    found = deltalake.DeltaTable(writer.path).to_pyarrow_table().to_pylist()
    return sorted(row["offset"] for row in found if row["partition"] == partition)


def audited(writer: Writer) -> list[str]:
    report = Report()
    audit = CommitAudit("t", report)
    for version in entry_versions(writer.path):
        audit.apply(parse_commit(version, read_entry(writer.path, version)))
    assert audit.ends == table_ends(load(writer.path))
    return report.problems


def test_files_that_go_while_an_entry_waits_for_its_name_are_named_by_none(
    writer: Writer,
) -> None:
    """As orphans do, to another compactor, if this one is stopped for a minute."""
    snapshot, file = load(writer.path), merged(writer, 10, 30)
    before = snapshot.version
    with pytest.raises(CommitRefused, match="went meanwhile"):
        replace(
            writer, of(snapshot)[1:3], [file], snapshot,
            on_written=lambda: os.unlink(os.path.join(writer.path, file.path)),
        )  # fmt: skip
    assert load(writer.path).version == before
    assert offsets(writer) == list(range(40))


def test_what_waited_for_long_takes_no_place(writer: Writer) -> None:
    """A VACUUM that began before the commit has it on its list: it was old."""
    snapshot, file = load(writer.path), merged(writer, 10, 30)
    path, before = os.path.join(writer.path, file.path), snapshot.version
    file = file._replace(modified_ms=file.modified_ms - AHEAD_MS)
    listed = deltalake.DeltaTable(writer.path).vacuum(
        0, dry_run=True, enforce_retention_duration=False, full=True
    )
    assert listed == [file.path]
    with pytest.raises(CommitRefused, match="waited so long"):
        replace(writer, of(snapshot)[1:3], [file], snapshot)
    assert load(writer.path).version == before
    keep(path)
    replace(writer, of(snapshot)[1:3], [file], snapshot)
    assert offsets(writer) == list(range(40))


def test_one_entry_takes_files_out_and_puts_another_in(writer: Writer) -> None:
    snapshot = load(writer.path)
    before, ends = of(snapshot), table_ends(snapshot)
    done = replace(writer, before[1:3], [merged(writer, 10, 30)], snapshot)
    assert done == (snapshot.version, False)
    assert [file.rows for file in of(snapshot)] == [10, 20, 10]
    assert offsets(writer) == list(range(40))
    assert table_ends(load(writer.path)) == ends
    assert load(writer.path).removed == {file.path: NOW_MS for file in before[1:3]}
    assert audited(writer) == []
    again = load(writer.path)
    assert (again.files, again.miscounted) == (snapshot.files, None)


def test_the_entry_says_what_it_is(writer: Writer) -> None:
    snapshot = load(writer.path)
    version, _ = replace(writer, of(snapshot), [merged(writer, 0, 40)], snapshot)
    lines = [json.loads(line) for line in read_entry(writer.path, version).splitlines()]
    info = lines[0]["commitInfo"]
    assert info["operation"] == "LAKELOG MERGE"
    assert info["isBlindAppend"] is False, "who commits beside it looks at all of it"
    assert info["operationMetrics"]["numRemovedFiles"] == "4"
    assert info["operationMetrics"]["numOutputRows"] == "40"
    actions = [body for line in lines[1:] for body in line.values()]
    assert {body["dataChange"] for body in actions} == {False}
    assert not [line for line in lines if "txn" in line]
    commit = parse_commit(version, read_entry(writer.path, version))
    assert commit.merged == {0: (4, 40)}
    assert not commit.is_owners
    [latest] = deltalake.DeltaTable(writer.path).history(1)
    assert latest["operation"] == "LAKELOG MERGE"


def test_which_version_brought_an_offset_stays_so(writer: Writer) -> None:
    before = [round_of(writer.path, TOPIC_ID, 0, offset) for offset in range(40)]
    snapshot = load(writer.path)
    replace(writer, of(snapshot), [merged(writer, 0, 40)], snapshot)
    writer.add(0, 40, 50)
    after = [round_of(writer.path, TOPIC_ID, 0, offset) for offset in range(40)]
    assert after == before


def test_an_index_follows_it_as_a_whole(writer: Writer) -> None:
    ours, theirs = load(writer.path), load(writer.path)
    kept = theirs.index.files_of(1)
    replace(writer, of(ours)[:3], [merged(writer, 0, 30)], ours)
    follow(theirs)
    index = theirs.index
    assert index.files_of(1) is kept
    assert index.files_of(0).files == of(theirs)
    assert [file.rows for file in index.files_of(0).files] == [30, 10]


def test_rounds_go_on_behind_it(writer: Writer) -> None:
    snapshot = load(writer.path)
    replace(writer, of(snapshot), [merged(writer, 0, 40)], snapshot)
    file = write_file(writer.path, "next", rows(0, range(40, 50)))
    commit_files(writer.path, TOPIC_ID, 6, {0: (40, 50)}, [file], snapshot=snapshot)
    assert offsets(writer) == list(range(50))
    assert audited(writer) == []


def owners_delete(writer: Writer) -> None:
    deltalake.DeltaTable(writer.path).delete("offset = 15 and partition = 0")


def owners_update(writer: Writer) -> None:
    deltalake.DeltaTable(writer.path).update(
        {"topic": "'theirs'"}, predicate="offset = 15 and partition = 0"
    )


def owners_optimize(writer: Writer) -> None:
    deltalake.DeltaTable(writer.path).optimize.compact()


def owners_column(writer: Writer) -> None:
    field = deltalake.Field("theirs", deltalake.schema.PrimitiveType("string"))
    deltalake.DeltaTable(writer.path).alter.add_columns([field])


def owners_restore(writer: Writer) -> None:
    deltalake.DeltaTable(writer.path).restore(1, ignore_missing_files=True)


def retention(writer: Writer) -> None:
    file = of(load(writer.path))[1]
    named = [(file.path, 0, file.size)]
    remove_files(writer.path, TOPIC_ID, named, now_ms=NOW_MS, log_starts={0: 20})


ACTS = [
    owners_delete, owners_update, owners_optimize, owners_column, owners_restore,
    retention,
]  # fmt: skip


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("is_late", [False, True], ids=["before", "at the last moment"])
def test_whoever_changed_what_it_read_is_not_undone(
    writer: Writer, act: Callable[[Writer], None], is_late: bool
) -> None:
    snapshot = load(writer.path)
    left = [lambda: act(writer)]
    on_written = (lambda: left.pop()() if left else None) if is_late else lambda: None
    gone, new = of(snapshot)[:3], merged(writer, 0, 30)
    if not is_late:
        left.pop()()
    with pytest.raises(CommitRefused):
        replace(writer, gone, [new], snapshot, on_written=on_written)
    assert not left
    assert new.path not in load(writer.path).files
    now = load(writer.path)
    assert (snapshot.version, snapshot.files) == (now.version, now.files)


def test_who_only_added_does_not_stop_it(writer: Writer) -> None:
    snapshot = load(writer.path)
    left = [lambda: writer.add(0, 40, 50), lambda: writer.add(1, 10, 20)]
    replace(
        writer, of(snapshot)[:3], [merged(writer, 0, 30)], snapshot,
        on_written=lambda: left.pop(0)() and None if left else None,
    )  # fmt: skip
    assert not left
    assert offsets(writer) == list(range(50))
    assert audited(writer) == []


def test_a_row_too_few_or_too_many_is_refused(writer: Writer) -> None:
    snapshot = load(writer.path)
    for end in (29, 31):
        wrong = write_file(writer.path, f"wrong-{end}", rows(0, range(end)))
        with pytest.raises((CommitRefused, AssertionError)):
            replace(writer, of(snapshot)[:3], [wrong], snapshot)
    assert offsets(writer) == list(range(40))


def test_a_file_that_is_not_as_described_is_refused(writer: Writer) -> None:
    snapshot, new = load(writer.path), merged(writer, 0, 40)
    os.truncate(os.path.join(writer.path, new.path), new.size - 1)
    with pytest.raises(OSError):
        replace(writer, of(snapshot), [new], snapshot)
    assert offsets(writer) == list(range(40))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"delta.enableRowTracking": "true"}, "enableRowTracking"),
        ({"delta.columnMapping.mode": "name"}, "columnMapping"),
    ],
)
def test_an_owner_who_asks_more_meanwhile_is_obeyed(
    writer: Writer, said: dict[str, str], why: str
) -> None:
    snapshot, new = load(writer.path), merged(writer, 0, 40)
    entry = entry_path(writer.path, 0)
    actions = [json.loads(line) for line in Path(entry).read_text().splitlines()]
    [action] = [action for action in actions if "metaData" in action]
    action["metaData"]["configuration"] |= said
    following = entry_path(writer.path, snapshot.version + 1)
    Path(following).write_text(json.dumps(action) + "\n")
    with pytest.raises(CommitRefused, match=why):
        replace(writer, of(snapshot), [new], snapshot)


def test_an_entry_that_is_overwritten_is_told(writer: Writer) -> None:
    snapshot, new = load(writer.path), merged(writer, 0, 40)

    def overwrite() -> None:
        Path(entry_path(writer.path, snapshot.version + 1)).write_text(
            '{"commitInfo":{"operation":"THEIRS"}}\n'
        )

    with pytest.raises(CommitLost):
        replace(writer, of(snapshot), [new], snapshot, on_committed=overwrite)
    assert offsets(writer) == list(range(40))


@pytest.mark.parametrize(
    ("letters", "others"), [(b'"add"', b'"abd"'), (b'"remove"', b'"rempve"')]
)
def test_a_damaged_letter_that_hides_a_file_is_told(
    writer: Writer, letters: bytes, others: bytes
) -> None:
    snapshot = load(writer.path)
    version, _ = replace(writer, of(snapshot), [merged(writer, 0, 40)], snapshot)
    entry = Path(entry_path(writer.path, version))
    entry.write_bytes(entry.read_bytes().replace(letters, others, 1))
    assert "partition 0" in str(load(writer.path).miscounted)
    assert audited(writer)


def with_constraint(writer: Writer) -> None:
    table = deltalake.DeltaTable(writer.path)
    table.alter.add_constraint({"positive": "offset >= 0"})


def with_change_feed(writer: Writer) -> None:
    table = deltalake.DeltaTable(writer.path)
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})


def append_only(writer: Writer) -> None:
    table = deltalake.DeltaTable(writer.path)
    table.alter.set_table_properties({"delta.appendOnly": "true"})


@pytest.mark.parametrize("act", [with_constraint, with_change_feed, append_only])
def test_tables_whose_owner_asks_more_of_writers(
    writer: Writer, act: Callable[[Writer], None]
) -> None:
    act(writer)
    snapshot = load(writer.path)
    replace(writer, of(snapshot), [merged(writer, 0, 40)], snapshot)
    assert offsets(writer) == list(range(40))
    assert [file.rows for file in of(snapshot)] == [40]
    assert audited(writer) == []
    assert not parse_commit(
        snapshot.version, read_entry(writer.path, snapshot.version)
    ).changes_data


def test_the_library_is_not_asked_of_a_plain_table(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(library, "commit_replacement")
    snapshot = load(writer.path)
    replace(writer, of(snapshot), [merged(writer, 0, 40)], snapshot)
    assert offsets(writer) == list(range(40))


def cleaned(
    writer: Writer, gone: list[DataFile], files: list[NewFile], snapshot: Snapshot
) -> Committed:
    assert snapshot.metadata is not None
    reach = gone[0].first_offset, gone[-1].last_offset + 1
    return replace_files(
        writer.path, TOPIC_ID, gone, files, now_ms=NOW_MS, snapshot=snapshot,
        schema=snapshot.metadata.schema_string, cleaned=reach,
    )  # fmt: skip


def kept(writer: Writer, offsets: Sequence[int]) -> NewFile:
    return write_file(writer.path, f"cleaned-{offsets[0]}", rows(0, offsets))


def test_a_clean_takes_rows_out_and_says_so(writer: Writer) -> None:
    snapshot = load(writer.path)
    ends = table_ends(snapshot)
    files = [kept(writer, [3, 9]), kept(writer, [20, 39])]
    version, _ = cleaned(writer, of(snapshot), files, snapshot)
    commit = parse_commit(version + 1, read_entry(writer.path, version))
    assert commit.cleaned == {0: (0, 40, 4, 40, 4)}
    assert (commit.changes_data, commit.is_owners) == (True, False)
    assert commit.info["operationMetrics"]["numDeletedRows"] == "36"
    assert json.loads(commit.info["userMetadata"]) == {
        "operation": "LAKELOG CLEAN", "cleaned": {"0": [0, 40, 4, 40, 4]},
    }  # fmt: skip
    assert offsets(writer) == [3, 9, 20, 39]
    assert table_ends(load(writer.path)) == ends
    assert load(writer.path).miscounted is None
    assert audited(writer) == []
    [latest] = deltalake.DeltaTable(writer.path).history(1)
    assert latest["operation"] == "LAKELOG CLEAN"


def test_a_clean_that_takes_nothing_out_is_none_of_a_streams_business(
    writer: Writer,
) -> None:
    snapshot = load(writer.path)
    files = [merged(writer, 0, 40)]
    version, _ = cleaned(writer, of(snapshot), files, snapshot)
    assert not parse_commit(version, read_entry(writer.path, version)).changes_data
    assert audited(writer) == []


@pytest.mark.parametrize("offsets", [[], range(41)], ids=["none", "more"])
def test_a_clean_leaves_some_rows_and_no_more_than_there_were(
    writer: Writer, offsets: Sequence[int]
) -> None:
    snapshot = load(writer.path)
    files = [kept(writer, offsets)] if offsets else []
    with pytest.raises((CommitRefused, AssertionError)):
        cleaned(writer, of(snapshot), files, snapshot)
    assert len(load(writer.path).files) == 5


def test_nothing_leaves_a_table_that_is_append_only(writer: Writer) -> None:
    snapshot = load(writer.path)
    before = of(snapshot)
    table = deltalake.DeltaTable(writer.path)
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(CommitRefused, match="appendOnly"):
        cleaned(writer, before, [kept(writer, [39])], snapshot)


def test_a_library_commits_a_clean_where_it_must(writer: Writer) -> None:
    table = deltalake.DeltaTable(writer.path)
    table.alter.add_constraint({"positive": "offset >= 0"})
    snapshot = load(writer.path)
    cleaned(writer, of(snapshot), [kept(writer, [5, 39])], snapshot)
    assert offsets(writer) == [5, 39]
    assert parse_commit(1, read_entry(writer.path, snapshot.version)).changes_data
    assert audited(writer) == []
