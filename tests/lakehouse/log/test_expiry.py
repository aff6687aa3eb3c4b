"""What of a log is old goes, down to a checkpoint that was read; nothing else does."""

import json
import os
from pathlib import Path

import deltalake
import pytest

from lakehouse.errors import CommitRefused
from lakehouse.log import expiry
from lakehouse.log.checkpoint_repair import stash_checkpoint
from lakehouse.log.delta_log import (
    LOG_DIRECTORY,
    Snapshot,
    entry_versions,
    load,
    load_version,
    read_version,
)
from lakehouse.log.expiry import (
    ENABLED,
    PROTECTION,
    RETENTION,
    clean_up,
    log_retention_ms,
)
from tests.support.compacted_log import compact_log
from tests.support.tables import Writer
from tests.support.v2_checkpoint import as_v2

DAY_MS = 86_400_000
NOON_MS = 1_700_000_000_000 // DAY_MS * DAY_MS + DAY_MS // 2


def age(file: Path, days: float) -> None:
    """It is some days older than `NOON_MS`."""
    changed_s = (NOON_MS - days * DAY_MS) / 1000
    os.utime(file, (changed_s, changed_s))


class Old:
    """A table that had a version a day until today's, 16, with checkpoints 4 and 8; its
    log is kept for a week."""

    def __init__(self, folder: Path) -> None:
        self.writer = Writer(str(folder))
        self.path = self.writer.path
        self.log = Path(self.path, LOG_DIRECTORY)
        for n in range(16):
            self.writer.add(0, n * 10, n * 10 + 10)
            if n + 1 in (4, 8):
                deltalake.DeltaTable(self.path).create_checkpoint()
        for file in self.log.glob("0*"):
            age(file, 16 - int(file.name[:20]))
        self.snapshot = load(self.path)

    def say(self, name: str, value: str) -> None:
        """Its owner sets a property."""
        assert self.snapshot.metadata is not None
        self.snapshot.metadata.configuration[name] = value  # type: ignore[index]

    def file(self, version: int, rest: str) -> Path:
        """One of the log's."""
        return self.log / f"{version:020d}.{rest}"

    def cleaned(self, now_ms: int = NOON_MS) -> int:
        """Clean it up; the oldest version whose entry is left."""
        before = {path.name for path in self.log.iterdir()}
        count = clean_up(self.snapshot, now_ms)
        after = {path.name for path in self.log.iterdir()}
        assert after <= before
        assert len(before) - len(after) == count
        assert load(self.path).files == self.snapshot.files
        return entry_versions(self.path)[0]


@pytest.fixture
def old(tmp_path: Path) -> Old:
    return Old(tmp_path)


def test_what_is_older_than_the_retention_goes_below_a_checkpoint(old: Old) -> None:
    for rest in ("crc", "checkpoint.parquet.damaged"):
        for version in (3, 8, 9):
            old.file(version, rest).write_text("{}")
            age(old.file(version, rest), 16 - version)
    (old.log / "an owner's.txt").write_text("mine")
    assert old.cleaned() == 8
    for version in range(8, 17):
        assert load_version(old.path, version).version == version
    assert not old.file(4, "checkpoint.parquet").exists()
    assert old.file(8, "checkpoint.parquet").exists()
    left = sorted(int(path.name[:20]) for path in old.log.glob("*.crc"))
    assert left == [8, 9], "of an entry that went nothing is left"
    assert not old.file(3, "checkpoint.parquet.damaged").exists()
    assert (old.log / "an owner's.txt").exists()
    assert old.cleaned() == 8, "and nothing more"


def test_a_log_compaction_goes_with_the_last_entry_that_it_copies(old: Old) -> None:
    """It has these entries' statistics, and so values of rows that may be erased."""
    goes = [*compact_log(old.path, 1, 3), *compact_log(old.path, 6, 7)]
    stays = [*compact_log(old.path, 6, 8), *compact_log(old.path, 9, 12)]
    for file in (goes[2], stays[2]):
        file.rename(f"{file}.damaged")
    assert old.cleaned() == 8
    assert not [one for one in goes if any(old.log.glob(f"{one.name}*"))]
    assert all(any(old.log.glob(f"{one.name}*")) for one in stays)


UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
BESIDE = (
    ".{}.json.crc",
    ".{}.crc.crc",
    ".{}.checkpoint.parquet.crc",
    ".{}.checkpoint.parquet.tmp",
    "{}.checkpoint.parquet#1",
    "{}.json#12",
    "{}.json.torn",
    "{}.json.anew",
    "{}.checkpoint.parquet.anew",
    f".{{}}.json.{UUID}.tmp",
    f".{{}}.crc.{UUID}.tmp",
    f"..{{}}.json.{UUID}.tmp.crc",
    f".{{}}.checkpoint.0000000001.0000000002.parquet.{UUID}.tmp",
)
"""What Hadoop notes, and what a killed process leaves, or a repair."""
THEIRS = "{}.json.theirs", "...{}.json.crc", ".{}.txt.crc", f".{{}}.txt.{UUID}.tmp"


def test_what_lies_beside_an_entry_goes_with_it(old: Old) -> None:
    def there(version: int) -> set[str]:
        first = f"{version:020d}"
        return {
            one for one in (*BESIDE, *THEIRS) if (old.log / one.format(first)).exists()
        }

    for name in (*BESIDE, *THEIRS):
        for version in (7, 8):
            (old.log / name.format(f"{version:020d}")).write_text("{}")
    assert old.cleaned() == 8
    assert there(7) == {*THEIRS}
    assert there(8) == {*BESIDE, *THEIRS}


@pytest.mark.parametrize(
    ("said", "oldest"),
    [
        ("interval 7 days", 8),
        ("7 days", 8),
        ("INTERVAL 1 WEEK", 8),
        ("interval 1 week 2 days", 4),
        ("interval 90 days", 0),
        ("90 days", 0),
        ("INTERVAL 90 DAYS", 0),
        ("interval 12 weeks 6 days", 0),
        ("a while", 0),
        ("", 0),
    ],
)
def test_the_retention_is_its_owners_in_all_words(
    old: Old, said: str, oldest: int
) -> None:
    """A day is kept as a whole: of noon a week ago the whole of that day."""
    old.say(RETENTION, said)
    assert old.cleaned() == oldest


def test_without_a_property_it_is_deltas(old: Old) -> None:
    assert old.snapshot.metadata is not None
    del old.snapshot.metadata.configuration[RETENTION]  # type: ignore[attr-defined]
    assert log_retention_ms(old.snapshot) == 30 * DAY_MS


@pytest.mark.parametrize("said", ["false", " FALSE", "no", ""])
def test_nothing_goes_where_its_owner_says_so(old: Old, said: str) -> None:
    old.say(ENABLED, said)
    assert old.cleaned() == 0


def test_nothing_goes_where_checkpoints_are_protected(old: Old) -> None:
    protocol = old.snapshot.protocol
    old.snapshot.protocol = protocol._replace(writer_features=(PROTECTION,))
    assert old.cleaned() == 0


@pytest.mark.parametrize(
    "rest",
    [
        "checkpoint.parquet.damaged",
        "checkpoint.parquet.tmp",
        f"checkpoint.{1:010d}.{2:010d}.parquet",
        "json.tmp",
    ],
)
def test_what_is_no_checkpoint_stands_for_nothing(old: Old, rest: str) -> None:
    old.file(8, "checkpoint.parquet").rename(old.file(8, rest))
    assert old.cleaned() == 4


def test_a_checkpoint_that_was_put_aside_keeps_what_it_is_mended_from(old: Old) -> None:
    stash_checkpoint(old.snapshot, 8)
    assert old.cleaned() == 4
    assert load_version(old.path, 5).version == 5


def test_nothing_is_deleted_for_a_checkpoint_that_cannot_be_read(old: Old) -> None:
    place = old.file(8, "checkpoint.parquet")
    place.write_bytes(place.read_bytes()[:-100])
    age(place, 8)
    with pytest.raises(CommitRefused, match="nothing below checkpoint 8 is deleted"):
        old.cleaned()
    assert entry_versions(old.path)[0] == 0


def test_a_young_checkpoint_or_a_young_entry_below_keeps_what_is_below(
    old: Old,
) -> None:
    age(old.file(8, "checkpoint.parquet"), 1)
    assert old.cleaned() == 4
    age(old.file(8, "checkpoint.parquet"), 8)
    age(old.file(5, "json"), 1)
    assert old.cleaned() == 4


def test_who_is_cut_off_leaves_a_log_without_a_hole(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink, count = os.unlink, [0]

    def cut_off(path: str) -> None:
        count[0] += 1
        if count[0] > 5:
            raise OSError("killed")
        unlink(path)

    monkeypatch.setattr(os, "unlink", cut_off)
    with pytest.raises(OSError, match="killed"):
        clean_up(old.snapshot, NOON_MS)
    monkeypatch.undo()
    versions = entry_versions(old.path)
    assert versions == list(range(versions[0], 17))
    assert 0 < versions[0] < 8
    assert load(old.path).files == old.snapshot.files
    assert old.cleaned() == 8


def test_a_checkpoint_that_has_a_twin_of_its_version_stands_for_nothing(
    old: Old,
) -> None:
    """Nobody knows which of them another reader takes."""
    twin = old.file(8, "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json")
    twin.write_text("{}")
    age(twin, 8)
    assert clean_up(old.snapshot, NOON_MS) > 0
    assert entry_versions(old.path)[0] == 4


def test_a_part_of_a_checkpoint_beside_a_whole_one_is_nobodys(old: Old) -> None:
    """As a writer leaves it that was killed."""
    part = old.file(8, f"checkpoint.{1:010d}.{2:010d}.parquet")
    part.write_bytes(b"PAR1")
    age(part, 8)
    assert old.cleaned() == 8


def test_a_directory_that_has_the_name_of_a_file_is_passed_over(old: Old) -> None:
    old.file(2, "crc").mkdir()
    age(old.file(2, "crc"), 14)
    assert old.cleaned() == 8
    assert old.file(2, "crc").exists()


def test_so_many_files_go_at_a_time(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "GONE_MAX", 3)
    assert [old.cleaned() for _ in range(4)] == [3, 5, 8, 8]


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_old_sidecars_that_no_checkpoint_names_go(tmp_path: Path, kind: str) -> None:
    writer = Writer(str(tmp_path))
    for n in range(4):
        writer.add(0, n * 10, n * 10 + 10)
    checkpoint = as_v2(writer, kind)
    sidecars = checkpoint.parent / "_sidecars"
    for name, days in (("old.parquet", 40), ("young.parquet", 1)):
        (sidecars / name).write_bytes(b"PAR1")
        age(sidecars / name, days)
    for named in sidecars.glob("part-*"):
        age(named, 40)
    before = load(writer.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiry, "GONE_MAX", 0)
        assert clean_up(before, NOON_MS) == 0
    assert clean_up(before, NOON_MS) == 1
    assert {path.name for path in sidecars.iterdir()} == {
        "part-0.parquet", "part-1.parquet", "young.parquet",
    }  # fmt: skip
    assert load(writer.path).files == before.files

    age(sidecars / "young.parquet", 40)
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-20])
    assert clean_up(before, NOON_MS) == 0, "nobody knows what it names"
    odd = '{"sidecar": {"path": null}}'
    twin = checkpoint.with_name(checkpoint.name.replace("80a083e8", "10a083e8"))
    twin.with_suffix(".json").write_text(odd)
    checkpoint.write_bytes(whole)
    assert clean_up(before, NOON_MS) == 0
    twin.with_suffix(".json").unlink()
    assert clean_up(before, NOON_MS) == 1


def test_a_sidecar_is_named_by_any_checkpoint_also_a_twin(tmp_path: Path) -> None:
    """Two writers may each make one of a version, in two forms; names are URIs."""
    writer = Writer(str(tmp_path))
    for n in range(4):
        writer.add(0, n * 10, n * 10 + 10)
    checkpoint = as_v2(writer, "json")
    sidecars = checkpoint.parent / "_sidecars"
    for number, uuid in enumerate(("10a083e8", "f0a083e8")):
        twin = checkpoint.with_name(checkpoint.name.replace("80a083e8", uuid))
        (sidecars / f"part {number}{uuid}.parquet").write_bytes(b"PAR1")
        name = f"file:///elsewhere/part%20{number}{uuid}.parquet"
        twin.write_text(json.dumps({"sidecar": {"path": name}}))
    (sidecars / "directory.parquet").mkdir()
    (sidecars / "an owner's.txt").write_text("mine")
    before = {path.name for path in sidecars.iterdir()}
    (sidecars / "unnamed.parquet").write_bytes(b"PAR1")
    for path in sidecars.iterdir():
        age(path, 40)
    snapshot = load_by(writer, checkpoint)
    assert clean_up(snapshot, NOON_MS) == 1
    assert {path.name for path in sidecars.iterdir()} == before


def test_what_lies_beside_a_sidecar_goes_with_it(tmp_path: Path) -> None:
    """Hadoop's checksums, and what a killed Spark was writing."""
    writer = Writer(str(tmp_path))
    for n in range(4):
        writer.add(0, n * 10, n * 10 + 10)
    sidecars = as_v2(writer, "json").parent / "_sidecars"
    stay = {".part-0.parquet.crc", ".an owner's.txt.crc", f".x.txt.{UUID}.tmp"}
    tmp = f".lost.parquet.{UUID}.tmp"
    go = {"old.parquet", ".old.parquet.crc", ".lost.parquet.crc", tmp, f".{tmp}.crc"}
    for name in stay | go:
        (sidecars / name).write_bytes(b"crc")
    for path in sidecars.iterdir():
        age(path, 40)
    young = {f".young.parquet.{UUID}.tmp", ".later.parquet.crc", "new.parquet"}
    for name in (*young, ".new.parquet.crc"):
        (sidecars / name).write_bytes(b"PAR1")
    age(sidecars / ".new.parquet.crc", 40)
    stay |= {*young, ".new.parquet.crc"}
    before = load(writer.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiry, "GONE_MAX", 3)
        assert clean_up(before, NOON_MS) == 3
    assert (sidecars / "old.parquet").exists(), "a checksum goes before its file"
    assert clean_up(before, NOON_MS) == 2
    assert {path.name for path in sidecars.iterdir()} == {
        "part-0.parquet", "part-1.parquet", *stay,
    }  # fmt: skip


def test_what_gets_its_name_meanwhile_ends_no_clean_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Spark does that writes a checkpoint at that moment."""
    writer = Writer(str(tmp_path))
    for n in range(4):
        writer.add(0, n * 10, n * 10 + 10)
    sidecars = as_v2(writer, "json").parent / "_sidecars"
    old = sidecars / "old.parquet"
    old.write_bytes(b"PAR1")
    age(old, 40)
    found = os.listdir

    def renamed(path: str) -> list[str]:
        gone = [f".new.parquet.{UUID}.tmp"] if path.endswith("_sidecars") else []
        return [*gone, *found(path)]

    monkeypatch.setattr(os, "listdir", renamed)
    assert clean_up(load(writer.path), NOON_MS) == 1
    assert not old.exists()


def load_by(writer: Writer, checkpoint: Path) -> Snapshot:
    """The state as this one of its version tells it."""
    return read_version(writer.path, int(checkpoint.name[:20]), [checkpoint.name], {})


def test_a_sidecar_whose_name_is_escaped_is_read(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    for n in range(4):
        writer.add(0, n * 10, n * 10 + 10)
    before = load(writer.path)
    checkpoint = as_v2(writer, "json")
    for part in (checkpoint.parent / "_sidecars").iterdir():
        part.rename(part.with_name(part.name.replace("-", " ")))
    checkpoint.write_text(checkpoint.read_text().replace("part-", "part%20"))
    assert load(writer.path).files == before.files
