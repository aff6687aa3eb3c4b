"""What is written of an erasure proves it, and says nothing of what was erased."""

from pathlib import Path

import pytest

from jobs.erasing import records
from jobs.erasing.records import Erasure
from lakehouse.log.delta_log import load
from tests.jobs.erasing.scene import PERSON, REQUEST, Scene
from tests.jobs.world import World
from tests.support.traces import traces

ID = "0f" * 16


def done(digest: str, version: int, **more: object) -> Erasure:
    rows = {0: 2, 3: 1}
    made = Erasure("people", ID, "key", digest, rows, 4, 1, version, ("all",), ())
    return made._replace(**more)


def test_a_digest_tells_requests_apart_and_topics_too() -> None:
    made = {
        records.digest_of(ID, "key", PERSON),
        records.digest_of(ID, "where", PERSON),
        records.digest_of("ab" * 16, "key", PERSON),
        records.digest_of(ID, "key", PERSON + b"1"),
    }
    assert len(made) == 4
    assert records.digest_of(ID, "key", PERSON) in made


def test_each_erasure_has_a_row_that_any_reader_of_delta_reads(tmp_path: Path) -> None:
    import deltalake

    digest = records.digest_of(ID, "key", PERSON)
    assert records.last_version(tmp_path, digest) == -1
    records.write(tmp_path, done(digest, 5))
    records.write(tmp_path, done("other", 9, left=("a file",), proven=()))
    rows = deltalake.DeltaTable(records.place(tmp_path)).to_pyarrow_table().to_pylist()
    one, other = sorted(rows, key=lambda row: row["version_after"])
    assert (one["topic"], one["rows"], one["is_proven"]) == ("people", 3, True)
    assert one["rows_by_partition"] == [(0, 2), (3, 1)]
    assert (other["is_proven"], other["left"]) == (False, ["a file"])
    assert records.last_version(tmp_path, digest) == 5
    assert traces(tmp_path, [PERSON]) == {}


def test_what_a_run_that_was_killed_had_erased_is_counted(world: World) -> None:
    scene = Scene(world)
    scene.put([PERSON, b"a", PERSON])
    version = load(scene.root).version
    scene.erase()
    scene.put([PERSON])
    scene.erase()
    assert records.erased_since(scene.root, REQUEST, version) == {0: 3}
    assert records.erased_since(scene.root, REQUEST, version + 1) == {0: 1}
    assert records.erased_since(scene.root, "another", -1) == {}


@pytest.mark.parametrize("name", ["lakelog_erasures", ".lakelog_erasures"])
def test_no_topic_has_its_table_in_its_place(name: str, tmp_path: Path) -> None:
    from lakehouse.location import table_place

    assert table_place(tmp_path / "tables", name) != records.place(tmp_path)
