"""What is torn behind a torn entry was lost with it; what is whole there was not."""

import os
from pathlib import Path

import deltalake
import pytest

from lakehouse.errors import LogDamaged
from lakehouse.log import torn
from lakehouse.log.actions import Commit, parse_commit
from lakehouse.log.delta_log import Snapshot, entry_path, entry_versions, follow, load
from lakehouse.tables import repair
from tests.support.syscalls import SystemCalls
from tests.support.tables import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def tear(writer: Writer, *contents: bytes) -> list[Path]:
    """Entries behind the last one, as a power cut leaves them."""
    after = load(writer.path).version + 1
    places = [Path(entry_path(writer.path, after + n)) for n, _ in enumerate(contents)]
    for place, content in zip(places, contents, strict=True):
        place.write_bytes(content)
    return places


def test_torn_entries_behind_a_torn_one_are_none_either(writer: Writer) -> None:
    """An owner's tools sync none: a power cut may take all that he did last."""
    writer.add(0, 0, 10)
    followed = load(writer.path)
    left = tear(writer, b'{"add":{"pa', b"", b'{"add":{"pa')
    assert follow(followed) == []
    assert "00000002.json is torn" in (followed.torn or "")
    assert load(writer.path).torn == followed.torn
    assert repair(writer.path) == followed.torn
    assert not any(one.exists() for one in left)
    assert all(Path(f"{one}.torn").exists() for one in left)
    assert load(writer.path).torn is None
    writer.add(0, 10, 20)
    assert load(writer.path).files.keys() > followed.files.keys()
    assert deltalake.DeltaTable(writer.path).to_pyarrow_table().num_rows == 20


@pytest.mark.parametrize("content", [b"", b"{"])
def test_a_table_of_which_no_entry_is_whole_is_damaged_and_not_missing(
    writer: Writer, content: bytes
) -> None:
    """None but the first is made before that is whole."""
    for version in range(2):
        Path(entry_path(writer.path, version)).write_bytes(content)
    for look in (load, repair):
        with pytest.raises(LogDamaged, match=r"00000000\.json is torn"):
            look(writer.path)
    assert entry_versions(writer.path) == [0, 1]


def test_torn_entries_are_put_aside_the_last_first(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is killed meanwhile leaves no hole."""
    writer.add(0, 0, 10)
    left = tear(writer, b"{", b"")
    calls = SystemCalls(monkeypatch, left[0].parent)
    repair(writer.path)
    assert calls.events == [
        f"rename {left[1].name} {left[1].name}.torn", "sync directory .",
        f"rename {left[0].name} {left[0].name}.torn", "sync directory .",
    ]  # fmt: skip


def test_what_an_owner_made_whole_meanwhile_is_not_put_aside(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.add(0, 0, 10)
    (torn,) = tear(writer, b"")

    def load_and_go_on(path: str) -> Snapshot:
        found = load(path)
        torn.write_bytes(b'{"commitInfo":{}}')
        return found

    monkeypatch.setattr("lakehouse.tables.load", load_and_go_on)
    assert repair(writer.path) is None
    assert torn.exists()


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("whole", [b'{"commitInfo":{}}', b'{"txn": 5}', None])
def test_a_whole_entry_behind_torn_ones_is_damage_and_nothing_goes(
    writer: Writer, whole: bytes | None, at: int
) -> None:
    """Who made it had read them."""
    writer.add(0, 0, 10)
    followed = load(writer.path)
    left = tear(writer, *[b""] * at, whole or b"")
    if whole is None:
        left[-1].unlink()
        left[-1].mkdir()
    for look in (follow, lambda _: load(writer.path), lambda _: repair(writer.path)):
        with pytest.raises(LogDamaged, match=r"00000002\.json is torn"):
            look(followed)
    assert all(one.exists() for one in left)


def test_what_is_whole_behind_a_torn_one_is_read_once(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand actions take seconds; torn again, it is looked at anew."""
    parsed: list[int] = []

    def counted(version: int, text: bytes) -> Commit:
        parsed.append(len(text))
        return parse_commit(version, text)

    followed = load(writer.path)
    _, whole = tear(writer, b'{"add":{"pa', b'{"commitInfo":{}}')
    monkeypatch.setattr(torn, "parse_commit", counted)
    for _ in range(3):
        with pytest.raises(LogDamaged):
            follow(followed)
    assert parsed == [17]
    whole.write_bytes(b'{"commitInf')
    assert follow(followed) == []
    assert parsed == [17, 11]


@pytest.mark.parametrize("is_another", [False, True])
def test_one_that_is_torn_to_the_same_length_is_looked_at_anew(
    tmp_path: Path, *, is_another: bool
) -> None:
    """In its place at another time; or in another file, of whatever time."""
    entry, later = tmp_path / "0.json", tmp_path / "later"
    entry.write_bytes(b'{"commitInfo":{}}')
    assert not torn.are_torn([str(entry)])
    made_ns, place = entry.stat().st_mtime_ns, later if is_another else entry
    place.write_bytes(b'{"commitInfo":{}'.ljust(17, b"\0"))
    os.utime(place, ns=(made_ns, made_ns + (not is_another)))
    place.replace(entry)
    assert torn.are_torn([str(entry)])


def test_what_went_is_torn_and_what_is_no_file_is_neither_torn_nor_empty(
    tmp_path: Path,
) -> None:
    assert torn.are_torn([str(tmp_path / "gone")])
    assert not torn.are_torn([str(tmp_path)])
    assert not torn.is_blank(str(tmp_path))
