"""An empty log entry stays a version: readers may have passed it."""

import json
import os
from pathlib import Path
from typing import Any

import deltalake
import pytest

from lakehouse.errors import LogDamaged
from lakehouse.log import log_store
from lakehouse.log.blank import fill_between
from lakehouse.log.delta_log import entry_path, entry_versions, follow, load, read_entry
from lakehouse.log.in_commit import ENABLED, FEATURE
from lakehouse.log.provenance import is_ours
from lakehouse.tables import repair
from tests.support.compacted_log import compact_log
from tests.support.syscalls import SystemCalls, in_order
from tests.support.tables import TOPIC_ID, Writer

TORN = b'{"add":{"pa'
WHOLE = b'{"commitInfo":{"operation":"HIS"}}'
OURS = b'{"commitInfo":{"operation":"LAKELOG COMPACT","engineInfo":"Lakelog"}}'


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    return writer


def leave(writer: Writer, *contents: bytes) -> list[Path]:
    """Entries behind the last one; that at version N was written in second N."""
    places = [Path(entry_path(writer.path, 2 + n)) for n, _ in enumerate(contents)]
    for version, (place, content) in enumerate(zip(places, contents, strict=True), 2):
        place.write_bytes(content)
        os.utime(place, (version, version))
    return places


def said(writer: Writer, version: int) -> dict[str, Any]:
    """What an entry says that says nothing else."""
    [line] = read_entry(writer.path, version).splitlines()
    info: dict[str, Any] = json.loads(line)["commitInfo"]
    return info


def filled(writer: Writer, *versions: int) -> bool:
    return all(said(writer, n)["operation"] == "LAKELOG REPAIR" for n in versions)


def ask_for_moments(writer: Writer, last_ms: int) -> None:
    """The second entry turns in-commit timestamps on, as an owner's ALTER TABLE."""
    first = [json.loads(line) for line in read_entry(writer.path, 0).splitlines()]
    [metadata] = [line["metaData"] for line in first if "metaData" in line]
    metadata["configuration"][ENABLED] = "true"
    protocol = {
        "minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [FEATURE],
    }  # fmt: skip
    info = {"commitInfo": {FEATURE: last_ms}}
    actions = [info, {"protocol": protocol}, {"metaData": metadata}]
    leave(writer, "\n".join(map(json.dumps, actions)).encode())


def test_the_empty_ones_up_to_the_first_that_is_not_keep_their_versions(
    writer: Writer,
) -> None:
    followed = load(writer.path)
    one, two, three, four = leave(writer, b"", b" \n", TORN, b"")
    assert "00000002.json is torn" in (repair(writer.path) or "")
    assert filled(writer, 2, 3)
    assert entry_versions(writer.path) == [0, 1, 2, 3]
    assert all(Path(f"{gone}.torn").exists() for gone in (three, four))
    assert [commit.version for commit in follow(followed)] == [2, 3]
    assert followed.torn is None
    assert writer.add(0, 10, 20).version == 4
    table = deltalake.DeltaTable(writer.path)
    assert table.to_pyarrow_table().num_rows == 20
    latest = table.history()[1]
    assert (latest["operation"], latest["timestamp"]) == ("LAKELOG REPAIR", 3000)
    assert not list(one.parent.glob(".entry-*"))
    assert is_ours(two.read_text())


def test_zeros_are_bytes(writer: Writer) -> None:
    """Of which no reader takes any."""
    (torn,) = leave(writer, b"\0" * 90)
    assert repair(writer.path) is not None
    assert not torn.exists()
    assert Path(f"{torn}.torn").exists()


def test_an_empty_entry_is_filled_durably_and_never_missing(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First what was noted of its bytes goes, which ours has not."""
    (blank,) = leave(writer, b"")
    noted = [blank.with_name(f".{blank.name}.crc"), blank.with_suffix(".crc")]
    for one in noted:
        one.write_text("{}")
    with monkeypatch.context() as patch:
        calls = SystemCalls(patch, blank.parent)
        assert repair(writer.path) is not None
    kinds = [event.split()[0] for event in calls.events]
    assert kinds.pop(0) == "sync"  # of what is before it
    assert kinds == ["sync", "remove", "remove", "sync", "rename", "sync"]
    assert [calls.events[at] for at in (0, 4, 6)] == ["sync directory ."] * 3
    assert calls.events[5].endswith(f".tmp {blank.name}")
    assert [one for one in noted if one.exists()] == []


@pytest.mark.parametrize("behind", [(), (WHOLE,)])
def test_a_log_compaction_of_an_empty_entry_goes_before_that_is_filled_in(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, behind: tuple[bytes, ...]
) -> None:
    """It may hold what the entry said before the power cut. No other one does."""
    blank, *_ = leave(writer, WHOLE, *behind)
    goes = compact_log(writer.path, 1, 2)
    stays = compact_log(writer.path, 0, 1)
    if behind:
        stays += compact_log(writer.path, 3, 3)
        goes += compact_log(writer.path, 1, 3)
    blank.write_bytes(b"")
    with monkeypatch.context() as patch:
        calls = SystemCalls(patch, blank.parent)
        if behind:
            assert fill_between(writer.path, TOPIC_ID)
        else:
            assert repair(writer.path) is not None
    assert filled(writer, 2)
    assert [one.name for one in goes if one.exists()] == []
    assert all(one.exists() for one in stays)
    kinds = [event.split()[0] for event in calls.events]
    assert kinds == ["sync", "sync", *["remove"] * len(goes), "sync", "rename", "sync"]


def test_what_is_filled_in_last_is_made_when_its_file_was(writer: Writer) -> None:
    """Or behind the entry before it, where commits are to rise."""
    ask_for_moments(writer, 3500)
    leave(writer, read_entry(writer.path, 2), b"", b"")
    assert repair(writer.path) is not None
    assert [os.stat(entry_path(writer.path, n)).st_mtime for n in (3, 4)] == [3, 4]
    assert [said(writer, n)["timestamp"] for n in (3, 4)] == [3000, 4000]
    assert [said(writer, n)[FEATURE] for n in (3, 4)] == [3501, 4000]


def test_what_its_owner_went_on_from_is_filled_in_its_place(writer: Writer) -> None:
    followed = load(writer.path)
    leave(writer, b"", b"", WHOLE, b"", WHOLE, b"")
    with pytest.raises(LogDamaged):
        load(writer.path)
    assert fill_between(writer.path, TOPIC_ID)
    assert filled(writer, 2, 3, 5)
    assert [commit.version for commit in follow(followed)] == [2, 3, 4, 5, 6]
    assert read_entry(writer.path, 7) == b""
    assert not fill_between(writer.path, TOPIC_ID)


def test_what_is_filled_in_between_was_made_before_what_follows(
    writer: Writer,
) -> None:
    ask_for_moments(writer, 5)
    leave(writer, read_entry(writer.path, 2), b"", b"", WHOLE)
    assert fill_between(writer.path, TOPIC_ID)
    assert [said(writer, n)[FEATURE] for n in (3, 4)] == [6, 7]
    assert [said(writer, n)["timestamp"] for n in (3, 4)] == [3000, 4000]


def test_a_version_of_a_time_is_the_same_when_one_before_it_is_filled_in(
    writer: Writer,
) -> None:
    """Delta's readers go by the files' times, which they take to rise."""
    leave(writer, b"")
    deltalake.DeltaTable(writer.path).delete("offset < 3")
    for version, day in ((0, 1), (1, 1), (2, 2), (3, 3)):
        os.utime(entry_path(writer.path, version), (day * 86_400, day * 86_400))
    table = deltalake.DeltaTable(writer.path)
    table.load_as_version("1970-01-04T12:00:00Z")
    assert table.version() == 3
    assert fill_between(writer.path, TOPIC_ID)
    assert filled(writer, 2)
    for day, version in ((2, 1), (3, 2), (4, 3)):
        table = deltalake.DeltaTable(writer.path)
        table.load_as_version(f"1970-01-0{day}T12:00:00Z")
        assert table.version() == version


def test_what_its_owner_made_whole_meanwhile_is_not_replaced(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While ours is written and synced, which takes its time."""
    (place,) = leave(writer, b"")

    def sync(path: str) -> None:
        place.write_bytes(WHOLE)

    monkeypatch.setattr(log_store, "sync_file", sync)
    assert repair(writer.path) is not None
    assert read_entry(writer.path, 2) == WHOLE
    assert not list(place.parent.glob(".entry-*"))


@pytest.mark.parametrize("behind", [(), (WHOLE,)])
def test_what_lies_before_it_is_synced_before_it_is_filled_in(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, behind: tuple[bytes, ...]
) -> None:
    """Its owner's tools sync nothing, and a whole one of ours proves all before it."""
    deltalake.DeltaTable(writer.path).delete("offset = 3")
    (file,) = load(writer.path).files
    Path(entry_path(writer.path, 3)).touch()
    for version, content in enumerate(behind, 4):
        Path(entry_path(writer.path, version)).write_bytes(content)
    calls = SystemCalls(monkeypatch, Path(writer.path))
    if behind:
        assert fill_between(writer.path, TOPIC_ID)
    else:
        repair(writer.path)
    [seen] = [one for one in calls.of("rename") if one.endswith(f"{3:020d}.json")]
    wanted = [f"sync {file}", f"sync _delta_log/{2:020d}.json", seen]
    assert in_order(calls.events, wanted)


def test_an_entry_of_ours_that_was_emptied_is_damage(writer: Writer) -> None:
    """Filled in, the offsets between its neighbours' would be a gap like a deleted one,
    and the file of their records nobody's."""
    writer.add(0, 10, 20)
    writer.add(0, 20, 30)
    Path(entry_path(writer.path, 2)).write_bytes(b"")
    assert not fill_between(writer.path, TOPIC_ID)
    with pytest.raises(LogDamaged, match=r"00000002\.json is torn"):
        load(writer.path)


@pytest.mark.parametrize(
    ("contents", "topic_id"),
    [
        ([b"", TORN, WHOLE], TOPIC_ID), ([TORN, WHOLE], TOPIC_ID),
        ([b"", OURS], TOPIC_ID), ([b"", WHOLE, OURS], TOPIC_ID),
        ([b"", WHOLE, TORN, OURS], TOPIC_ID), ([b"", WHOLE, b"", OURS], TOPIC_ID),
        ([b"", b'{"txn": 5}'], TOPIC_ID), ([b"", b""], TOPIC_ID),
        ([b"", WHOLE], "another"), ([b" " * 5000, WHOLE], TOPIC_ID),
    ],
)  # fmt: skip
def test_nothing_else_is_filled_in(
    writer: Writer, contents: list[bytes], topic_id: str
) -> None:
    places = leave(writer, *contents)
    assert not fill_between(writer.path, topic_id)
    assert [place.read_bytes() for place in places] == contents
