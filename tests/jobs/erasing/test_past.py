"""What cannot be taken out is told."""

from jobs.erasing import past
from tests.jobs.erasing.scene import PERSON, Scene
from tests.jobs.world import World


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


def test_a_key_in_an_owners_predicate_is_told(world: World) -> None:
    scene = Scene(world)
    scene.put([PERSON, b"a"])
    scene.table.delete(f"cast(key as string) = '{PERSON.decode()}'")
    [sentence] = past.in_log(scene.root, PERSON)
    assert sentence.endswith("says of itself: 00000000000000000002.json")
    assert past.in_log(scene.root, b"another") == []
    assert past.in_log(scene.root, b"\xff") == past.in_log(scene.root, None) == []


def test_the_tables_of_deleted_topics_of_the_name_are_told(world: World) -> None:
    (world.data_dir / "tables" / ".deleted-ab-people").mkdir(parents=True)
    (world.data_dir / "tables" / ".deleted-cd-others").mkdir()
    [sentence] = past.of_deleted_topics(world.data_dir, "people")
    assert sentence.startswith("tables/.deleted-ab-people is of a deleted topic")
