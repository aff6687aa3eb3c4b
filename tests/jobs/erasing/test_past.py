"""What cannot be taken out is told."""

import gzip
import json
import os
import threading
from pathlib import Path

import deltalake
import pytest

from jobs.erasing import past
from tests.jobs.erasing.scene import PERSON, Scene
from tests.jobs.world import World
from tests.support.compacted_log import compact_log
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
    assert "(topic)" in sentence
    assert sentence.endswith(": 00000000000000000003.json")
    scene.table.create_checkpoint()
    [with_checkpoint] = past.in_log(scene.root, PERSON)
    assert with_checkpoint == sentence.replace(
        ": 0", ": 00000000000000000003.checkpoint.parquet, 0"
    )


def test_statistics_that_are_in_a_v2_checkpoint_alone_are_told(world: World) -> None:
    scene = Scene(world)
    scene.put([PERSON])
    scene.table.alter.set_table_properties(
        {"delta.dataSkippingStatsColumns": "offset,topic"}
    )
    scene.table.update({"timestampType": "0"})
    scene.table.create_checkpoint()
    log = Path(scene.root, "_delta_log")
    (log / "_sidecars").mkdir()
    [checkpoint] = log.glob("*.checkpoint.parquet")
    checkpoint.rename(log / "_sidecars" / "016ae953.parquet")
    for entry in log.glob("*.json"):
        entry.unlink()
    [sentence] = past.in_log(scene.root, PERSON)
    assert "least and greatest values" in sentence
    assert sentence.endswith(": _sidecars/016ae953.parquet")


def test_statistics_that_are_in_a_log_compaction_alone_are_told(world: World) -> None:
    """Of a file that is in the table, and of one that left it with its values."""
    scene = Scene(world)
    scene.put([PERSON])
    scene.table.alter.set_table_properties(
        {"delta.dataSkippingStatsColumns": "offset,topic"}
    )
    scene.table.update({"timestampType": "0"})
    log = Path(scene.root, "_delta_log")
    [added] = [
        action["add"]
        for action in map(json.loads, (log / f"{3:020d}.json").read_text().splitlines())
        if "add" in action
    ]
    left = {key: added[key] for key in ("path", "size", "stats", "partitionValues")}
    (log / f"{4:020d}.json").write_text(json.dumps({"remove": left}))
    compacted = [compact_log(scene.root, 3, last)[0] for last in (3, 4)]
    assert '"add"' not in compacted[1].read_text()
    for entry in log.glob("*[0-9].json"):
        entry.unlink()
    [sentence] = past.in_log(scene.root, PERSON)
    assert "least and greatest values" in sentence
    assert "(topic)" in sentence
    assert sentence.endswith(": " + ", ".join(one.name for one in compacted))


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


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Of a table in ``tmp_path`` of which nothing else is there."""
    directory = tmp_path / "_delta_log"
    directory.mkdir()
    return directory


def test_a_key_in_what_is_left_of_a_torn_line_is_told(log: Path) -> None:
    """A long predicate is written in pieces."""
    said = {"predicate": f"[\"key IN ('{PERSON.decode()}', '{'b' * 9000}')\"]"}
    line = json.dumps(
        {"commitInfo": {"operation": "DELETE", "operationParameters": said}}
    )
    begun = log / ".00000000000000000003.json.5f0e.tmp"
    begun.write_text(line[:4096])
    [sentence] = past.in_log(str(log.parent), PERSON)
    assert sentence.endswith(f"delete what is no part of it: {begun.name}")
    assert past.in_log(str(log.parent), b"another") == []


MINE = "customer"
"""A column of which an owner chose to have statistics."""


def add_with(least: str, greatest: str) -> dict[str, object]:
    bounds = {
        "minValues": {"offset": 0, MINE: least},
        "maxValues": {"offset": 2, MINE: greatest},
    }
    return {
        "path": "partition=0/x.parquet",
        "partitionValues": {"partition": "0"},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps({"numRecords": 3, **bounds}),
    }


def test_statistics_in_a_torn_line_are_told(log: Path) -> None:
    line = json.dumps({"add": add_with("a", PERSON.decode())})
    begun = log / ".00000000000000000003.json.5f0e.tmp"
    begun.write_text(json.dumps({"commitInfo": {"timestamp": 1}}) + "\n" + line[:-4])
    [columns, named] = past.in_log(str(log.parent), PERSON)
    assert f"({MINE})" in columns
    assert named.endswith(f"delete what is no part of it: {begun.name}")
    [same] = past.in_log(str(log.parent), b"another")
    assert same == columns


def test_statistics_in_sparks_description_of_a_version_are_told(log: Path) -> None:
    """A ``.crc`` names all files of the table, as they were."""
    described = log / "00000000000000000003.crc"
    numbers = {"tableSizeBytes": 17, "numFiles": 1, "txnId": "17-18"}
    histogram = {"fileSizeHistogram": {"fileCounts": [17, 18]}}
    files = {"allFiles": [add_with("a", PERSON.decode())]}
    described.write_text(json.dumps(numbers | histogram | files))
    [columns, named] = past.in_log(str(log.parent), PERSON)
    assert f"({MINE})" in columns
    assert named.endswith(described.name)
    assert past.in_log(str(log.parent), b"17") == [columns]


OF_THE_TABLE: list[tuple[str, dict[str, object]]] = [
    (
        "metaData",
        {"configuration": {"delta.constraints.c": "key <> 'person-4711'"}},
    ),
    ("metaData", {"configuration": {"person-4711": "is gone"}}),
    ("metaData", {"description": "without person-4711"}),
    (
        "metaData",
        {
            "schemaString": json.dumps(
                {"fields": [{"name": "x", "metadata": {"comment": "person-4711's"}}]}
            )
        },
    ),
    ("metaData", {"schemaString": '{"fields": [{"name": "person-4711"}'}),
    ("domainMetadata", {"domain": "mine", "configuration": '{"skip":"person-4711"}'}),
    ("add", {"path": "x", "tags": {"who": "person-4711"}}),
    ("txn", {"appId": "of person-4711", "version": 1}),
    ("checkpointMetadata", {"version": 1, "tags": {"who": "person-4711"}}),
    ("somethingNew", {"who": ["person-4711"]}),
]


@pytest.mark.parametrize(("kind", "body"), OF_THE_TABLE)
def test_a_key_in_what_the_log_says_of_the_table_is_told(
    log: Path, kind: str, body: dict[str, object]
) -> None:
    """In entries, and in what describes a version or checkpoint."""
    names = {"metaData": "metadata", "add": "allFiles", "txn": "setTransactions"}
    listed: object = body if kind == "metaData" else [body]
    described = {"version": 3, "v2Checkpoint": {"nonFileActions": [{kind: body}]}}
    files = {
        "00000000000000000003.json": {kind: body},
        "00000000000000000003.crc": {"numFiles": 1, names.get(kind, kind): listed},
        "_last_checkpoint": described,
    }
    for name, said in files.items():
        (log / name).write_text(json.dumps(said))
    [sentence] = past.in_log(str(log.parent), PERSON)
    assert "says of the table or its files" in sentence
    assert sentence.endswith(": " + ", ".join(sorted(files)))
    assert past.in_log(str(log.parent), b"another") == []


def test_a_constraint_is_told_also_where_a_checkpoint_alone_has_it(
    world: World,
) -> None:
    scene = Scene(world)
    scene.put([PERSON, b"a"])
    them = f"cast(key as string) <> '{PERSON.decode()}' or offset < 9"
    scene.table.alter.add_constraint({"not_them": them})
    scene.table.create_checkpoint()
    log = Path(scene.root, "_delta_log")
    for entry in log.glob("*.json"):
        entry.unlink()
    [checkpoint] = log.glob("*.checkpoint.parquet")
    [sentence] = past.in_log(scene.root, PERSON)
    assert sentence.endswith(f"(constraints, properties, comments, statistics): "
                             f"{checkpoint.name}")  # fmt: skip
    assert past.in_log(scene.root, b"not_him") == []


def test_what_a_new_table_was_made_with_is_told(log: Path) -> None:
    said = {"description": "without person-4711", "properties": '{"delta.x":"17"}'}
    entry = log / "00000000000000000003.json"
    info = {"operation": "CREATE TABLE", "operationParameters": said}
    entry.write_text(json.dumps({"commitInfo": info}))
    [sentence] = past.in_log(str(log.parent), PERSON)
    assert sentence.endswith(f"says of itself: {entry.name}")
    assert past.in_log(str(log.parent), b"17") == []


def test_a_torn_checkpoint_is_told_whatever_is_looked_for(world: World) -> None:
    """What is left of it is compressed."""
    scene = Scene(world)
    scene.put([PERSON])
    scene.table.create_checkpoint()
    log = Path(scene.root, "_delta_log")
    [checkpoint] = log.glob("*.checkpoint.parquet")
    begun = log / f".{checkpoint.name}.5f0e.tmp"
    begun.write_bytes(checkpoint.read_bytes()[:-30])
    for key in (PERSON, b"another"):
        [sentence] = past.in_log(scene.root, key)
        assert "neither be read nor searched" in sentence
        assert sentence.endswith(f": {begun.name}")
    begun.write_bytes(b"")
    assert past.in_log(scene.root, PERSON) == []


@pytest.mark.parametrize("name", ["notes", "x.json.d/copy", ".hidden/00.json.bak"])
def test_a_file_of_an_odd_name_is_searched(log: Path, name: str) -> None:
    path = log / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("they asked: person-4711\n")
    [sentence] = past.in_log(str(log.parent), PERSON)
    assert sentence.endswith(f": {name}")
    assert past.in_log(str(log.parent), b"another") == []


def test_what_cannot_be_searched_is_told(log: Path) -> None:
    (log / "00000000000000000003.json.gz").write_bytes(gzip.compress(b"person-4711"))
    (log / "away").symlink_to(log.parent)
    [sentence] = past.in_log(str(log.parent), PERSON)
    assert "neither be read nor searched" in sentence
    assert sentence.endswith(": away, 00000000000000000003.json.gz")


def test_what_hadoop_says_of_a_file_beside_says_nothing_of_rows(log: Path) -> None:
    (log / ".00000000000000000003.json.crc").write_bytes(b"crc\0\0\0\2\0\xff 0 \xfe")
    assert past.in_log(str(log.parent), b"0") == []


def test_of_many_files_some_are_named_and_the_others_counted(log: Path) -> None:
    for number in range(past.NAMED_MAX + 2):
        (log / f"note-{number}").write_text("person-4711")
    [sentence] = past.in_log(str(log.parent), PERSON)
    assert sentence.endswith("note-3, note-4 and 2 more")


@pytest.mark.parametrize(
    "line",
    [
        '{"commitInfo":{"why":"person-4711","x":' + "[" * 100_000,
        '{"add":{"stats":"person-4711 ' + "[" * 100_000 + '"}}',
        '{"add":{"stats":"{\\"minValues\\":\\"person-4711\\"}"}}',
        '{"add":{"stats_parsed":["person-4711"]}}',
        '{"commitInfo":' + '{"a":' * 900 + '"person-4711"' + "}" * 901,
        '{"commitInfo":{"operation":[1],"operationParameters":17,"a":"person-4711"}}',
        '{"commitInfo":{"operationParameters":"person-4711"}}',
        '{"metaData":{"configuration":["person-4711"],"name":[1]}}',
        '{"metaData":{"configuration":{"lakelog.topic":["x"]},"name":"person-4711"}}',
        '{"metaData":{"schemaString":{"fields":"person-4711"}}}',
        '{"text":{"unreadable":"person-4711"}}',
        '{"unreadable":"person-4711"}',
        '["person-4711"]',
        '"person-4711"',
    ],
)
def test_a_line_of_whatever_form_is_searched(log: Path, line: str) -> None:
    """The rows are gone by then, and what is known is to be told."""
    (log / "00000000000000000003.json").write_text(line + "\n17\n\n")
    [sentence] = past.in_log(str(log.parent), PERSON)
    assert sentence.endswith(": 00000000000000000003.json")
    assert past.in_log(str(log.parent), b"another") == []


def test_a_key_in_a_torn_line_is_known_however_often_its_quotes_are_escaped(
    log: Path,
) -> None:
    said = {"predicate": json.dumps(["name = 'O\\'Brien'"])}
    line = json.dumps({"commitInfo": {"operationParameters": said}})
    (log / ".00000000000000000003.json.5f0e.tmp").write_text(line[:-2])
    assert len(past.in_log(str(log.parent), b"O'Brien")) == 1
    assert past.in_log(str(log.parent), b"O'B") == []


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


COMMON = b"""
    0 1 17 s people delta predicate tags true key value orders partition interval 7
    record parquet checkpoint struct
""".split()


@pytest.mark.parametrize("key", COMMON)
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
    scene.table.create_checkpoint()
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
