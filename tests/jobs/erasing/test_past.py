"""What cannot be taken out is told."""

import json
import os
import threading
from pathlib import Path

import deltalake
import pytest

from jobs.erasing import past
from tests.jobs.erasing.scene import PERSON, Scene
from tests.jobs.world import World
from tests.support.patience import IDLE_S
from tests.support.warehouses import Further


def test_a_table_as_it_was_made_has_nothing_to_tell(world: World) -> None:
    scene = Scene(world)
    scene.put([PERSON])
    scene.table.create_checkpoint()
    assert past.in_log(scene.root, PERSON) == []
    assert past.of_deleted_topics(world.data_dir, "people") == []


def test_statistics_of_other_columns_are_told(world: World) -> None:
    scene = Scene(world)
    scene.put([PERSON])
    scene.table.alter.set_table_properties(
        {"delta.dataSkippingStatsColumns": "offset,topic"}
    )
    scene.table.update({"timestampType": "0"})
    [sentence] = past.in_log(scene.root, PERSON)
    assert "least and greatest values" in sentence
    assert "topic" in sentence
    scene.table.create_checkpoint()
    assert past.in_log(scene.root, PERSON) == [sentence]


def test_statistics_that_are_in_a_v2_checkpoint_alone_are_told(world: World) -> None:
    scene = Scene(world)
    scene.put([PERSON])
    scene.table.alter.set_table_properties(
        {"delta.dataSkippingStatsColumns": "offset,topic"}
    )
    scene.table.update({"timestampType": "0"})
    [sentence] = past.in_log(scene.root, PERSON)
    scene.table.create_checkpoint()
    log = Path(scene.root, "_delta_log")
    (log / "_sidecars").mkdir()
    [checkpoint] = log.glob("*.checkpoint.parquet")
    checkpoint.rename(log / "_sidecars" / "016ae953.parquet")
    for entry in log.glob("*.json"):
        entry.unlink()
    assert past.in_log(scene.root, PERSON) == [sentence]


def test_a_key_in_an_owners_predicate_is_told(world: World) -> None:
    scene = Scene(world)
    scene.put([PERSON, b"a"])
    scene.table.delete(f"cast(key as string) = '{PERSON.decode()}'")
    [sentence] = past.in_log(scene.root, PERSON)
    assert sentence.endswith("says of itself: 00000000000000000002.json")
    assert past.in_log(scene.root, b"another") == []
    assert past.in_log(scene.root, b"\xff") == past.in_log(scene.root, None) == []


@pytest.mark.parametrize("name", ["{}#1", "{}.torn", ".{}.5f0e.tmp"])
def test_a_key_in_an_entry_that_an_owners_killed_statement_had_begun_is_told(
    world: World, name: str
) -> None:
    """By the library, by Spark; or that was torn, and put aside."""
    scene = Scene(world)
    scene.put([PERSON, b"a"])
    scene.table.delete(f"cast(key as string) = '{PERSON.decode()}'")
    [*_, entry] = sorted(Path(scene.root, "_delta_log").glob("*.json"))
    begun = entry.rename(entry.with_name(name.format(entry.name)))
    begun.write_text("".join(sorted(begun.read_text().splitlines(True))) + '{"add":')
    [sentence] = past.in_log(scene.root, PERSON)
    assert sentence.endswith(f"says of itself: {begun.name}")


def test_a_key_in_what_is_left_of_a_torn_line_is_told(tmp_path: Path) -> None:
    """A long predicate is written in pieces."""
    (tmp_path / "_delta_log").mkdir()
    said = {"predicate": f"[\"key IN ('{PERSON.decode()}', '{'b' * 9000}')\"]"}
    line = json.dumps(
        {"commitInfo": {"operation": "DELETE", "operationParameters": said}}
    )
    begun = tmp_path / "_delta_log" / ".00000000000000000003.json.5f0e.tmp"
    begun.write_text(line[:4096])
    [sentence] = past.in_log(str(tmp_path), PERSON)
    assert sentence.endswith(f"says of itself: {begun.name}")
    assert past.in_log(str(tmp_path), b"another") == []


@pytest.mark.parametrize("stats", ['{"minValues":', '{"minValues": [1]}'])
def test_statistics_that_are_none_do_not_end_the_search(
    tmp_path: Path, stats: str
) -> None:
    """The rows are gone by then, and what is known is to be told."""
    (tmp_path / "_delta_log").mkdir()
    entry = tmp_path / "_delta_log" / "00000000000000000003.json.torn"
    said = {"operationParameters": {"predicate": f"key = '{PERSON.decode()}'"}}
    actions = [{"add": {"stats": stats}}, {"commitInfo": said}]
    entry.write_text("\n".join(map(json.dumps, actions)))
    [sentence] = past.in_log(str(tmp_path), PERSON)
    assert sentence.endswith(f"says of itself: {entry.name}")


def owners_delete(scene: Scene, predicate: str) -> None:
    """One of the first row that is left, which says that it was of this predicate."""
    said = deltalake.CommitProperties(custom_metadata={"predicate": predicate})
    scene.table.delete(f"offset = {scene.shown[0][0]}", commit_properties=said)


@pytest.mark.parametrize(
    ("where", "predicate"),
    [
        ("key = 'person-9'", "cast(key as string) = 'person-9'"),
        ("key = X'706572736F6E2D39'", "cast(key as string) = 'person-9'"),
        ("key = 'person-9'", "key = X'706572736f6e2d39'"),
        ("value LIKE '%anna@%'", "cast(value as string) = 'anna@x.org'"),
        ("lower(value) LIKE 'anna@%'", "cast(value as string) = 'Anna@x.org'"),
        ("get_json_object(value, '$.id') = 17", "offset = 1 and offset < 17"),
        ("contains(value, 'anna')", "cast(value as string) = 'Joanna B'"),
    ],
)
def test_a_value_of_an_expression_in_an_owners_predicate_is_told(
    world: World, where: str, predicate: str
) -> None:
    scene = Scene(world)
    scene.put([PERSON, b"a"])
    assert past.in_log(scene.root, None, where) == []
    owners_delete(scene, predicate)
    [sentence] = past.in_log(scene.root, None, where)
    assert sentence == (
        "a value that the expression names stands in what an owner's commit says of "
        "itself: 00000000000000000002.json"
    )


@pytest.mark.parametrize(
    "where",
    [
        "key IS NULL",
        "key = 'person'",
        "offset = 1 AND key = 'another'",
        "partition = 0 and offset in (1, 2)",
        "value LIKE 'an%'",
        "get_json_object(value, '$.id') = 11111",
        "id = 7 and predicate = 'tags'",
    ],
)
def test_an_expression_of_other_values_has_nothing_to_tell(
    world: World, where: str
) -> None:
    scene = Scene(world)
    scene.put([PERSON, b"a"])
    owners_delete(scene, "key = 'person9' and get_json_object(value, '$.id') = 8")
    owners_delete(scene, "value = 'anna' and offset < 11")
    assert past.in_log(scene.root, None, where) == []


@pytest.mark.parametrize(
    "key",
    [b"0", b"1", b"17", b"s", b"people", b"delta", b"predicate", b"tags", b"true"],
)
def test_a_short_key_is_not_told_where_numbers_and_names_stand(
    world: World, key: bytes
) -> None:
    """As a user's number does, which is in each timestamp."""
    scene = Scene(world)
    scene.put([key])
    scene.put([PERSON])
    scene.table.optimize.compact()
    scene.table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    scene.table.delete("cast(key as string) = 'customer-170'")
    scene.table.delete("offset in (31, 30)")
    assert past.in_log(scene.root, key) == []


@pytest.mark.parametrize("digits", ["X'706572736f6e'", "X'706572736F6E'"])
def test_a_key_in_hexadecimal_digits_is_told(world: World, digits: str) -> None:
    scene = Scene(world)
    scene.put([b"person", b"a"])
    scene.table.delete(f"key = {digits}")
    [sentence] = past.in_log(scene.root, b"person")
    assert "says of itself" in sentence
    assert past.in_log(scene.root, b"per") == past.in_log(scene.root, b"son") == []


def test_a_key_as_spark_writes_it_into_a_predicate_is_told(world: World) -> None:
    scene = Scene(world)
    scene.put([b"person-9", b"a"])
    of_spark = {"predicate": '["(key#774 = 0x706572736F6E2D39)"]'}
    said = deltalake.CommitProperties(custom_metadata=of_spark)
    scene.table.delete("offset = 0", commit_properties=said)
    [sentence] = past.in_log(scene.root, b"person-9")
    assert "says of itself" in sentence
    assert past.in_log(scene.root, b"person-") == []


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (b"person-9", {"person-9": "asked"}),
        (b"17", {"custom": '{"user": 17}'}),
        (b"person-9", {"why": '{"text": "erase\\nperson-9"}'}),
        (b"person-9", {"predicate": "(key#774 = unhex(706572736F6E2D39))"}),
        (b"person-9", {"predicate": "(hex(key#774) = 706572736F6E2D39)"}),
        (b"O'Brien", {"predicate": "name = 'O''Brien'"}),
        (b"O'Brien", {"predicate": "name = 'O\\'Brien'"}),
        (b"O'Brien", {"why": json.dumps({"sql": "name = 'O\\'Brien'"})}),
        ("M\u00fcller".encode(), {"why": json.dumps({"user": "M\u00fcller"})}),
        (b"person-9", {"why": json.dumps({"user": "\u00e9person-9"})}),
        (b"person-9", {"version": "person-9"}),
    ],
)
def test_a_key_is_told_however_an_owner_wrote_it(
    world: World, key: bytes, said: dict[str, str]
) -> None:
    scene = Scene(world)
    scene.put([PERSON, b"a"])
    beside = deltalake.CommitProperties(custom_metadata=said)
    scene.table.delete("offset = 1", commit_properties=beside)
    [sentence] = past.in_log(scene.root, key)
    assert "says of itself" in sentence


def test_a_number_that_is_a_key_is_told_where_an_owner_wrote_it(world: World) -> None:
    scene = Scene(world)
    scene.put([PERSON])
    said = {"commitInfo": {"timestamp": 17, "operation": "DELETE", "user": {"id": 18}}}
    entry = Path(scene.root, "_delta_log", f"{2:020d}.json")
    entry.write_text(json.dumps(said))
    assert past.in_log(scene.root, b"17") == []
    [sentence] = past.in_log(scene.root, b"18")
    assert sentence.endswith(entry.name)


def test_a_key_in_what_an_owner_writes_beside_a_commit_is_told(world: World) -> None:
    scene = Scene(world)
    scene.put([PERSON, b"a"])
    said = deltalake.CommitProperties(
        custom_metadata={"why": "they asked: b\u00fcro-7"}
    )
    scene.table.delete("offset = 1", commit_properties=said)
    assert past.in_log(scene.root, PERSON) == []
    [sentence] = past.in_log(scene.root, "b\u00fcro-7".encode())
    assert "says of itself" in sentence


def test_the_tables_of_deleted_topics_of_the_name_are_told(world: World) -> None:
    (world.data_dir / "tables" / ".deleted-ab-people").mkdir(parents=True)
    for other in ("others", "young-people", "people-"):
        (world.data_dir / "tables" / f".deleted-cd-{other}").mkdir()
    [sentence] = past.of_deleted_topics(world.data_dir, "people")
    assert sentence.startswith("tables/.deleted-ab-people is of a deleted topic")


def test_they_are_told_of_further_warehouses_too(world: World, tmp_path: Path) -> None:
    two = Further(tmp_path, "fast", "slow", warehouse=world.data_dir / "tables")
    (two.roots["fast"] / ".deleted-ab-people").mkdir()
    [sentence] = past.of_deleted_topics(world.data_dir, "people")
    assert sentence.startswith("tables/.lakelog-warehouses/fast/.deleted-ab-people is")
    two.unmount("fast")
    [sentence] = past.of_deleted_topics(world.data_dir, "people")
    assert "were not looked for: the warehouse fast is not there" in sentence


@pytest.mark.parametrize("name", ["theirs.json", "theirs.checkpoint.parquet"])
def test_nobody_waits_for_what_is_no_file(world: World, name: str) -> None:
    scene = Scene(world)
    scene.put([PERSON])
    pipe = os.path.join(scene.root, "_delta_log", name)
    os.mkfifo(pipe)
    looks = threading.Thread(target=past.in_log, args=(scene.root, PERSON), daemon=True)
    looks.start()
    looks.join(IDLE_S)
    is_stuck = looks.is_alive()
    while looks.is_alive():  # let it go
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
        looks.join(0.01)
    assert not is_stuck
