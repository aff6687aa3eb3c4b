"""The guide's tables are what the settings say."""

from broker.settings import keys
from broker.topics.broker_configs import BROKER_CONFIGS
from infra.settings_table import PAGE, settings_table, with_tables


def test_the_tables_of_the_guide_are_those_of_the_settings():
    text = PAGE.read_text()
    assert text == with_tables(text), "run python -m infra.settings_table"


def test_each_setting_has_a_row_and_kafkas_names_are_kafkas():
    rows = [row.split(" | ") for row in settings_table().splitlines()[2:]]
    assert [row[0].strip("| `") for row in rows] == list(keys())
    names = {name.strip("`") for row in rows for name in row[2].split(", ") if name}
    assert len(names) > 20
    assert names <= BROKER_CONFIGS.keys()
    found = {row[0].strip("| `"): row for row in rows}
    assert found["wal.segment_bytes"][1] == "64Mi"
    assert found["groups.max_size"][2] == "`group.max.size`"


def test_a_table_that_differs_is_written_anew():
    stale = PAGE.read_text().replace("| `node_id` |", "| `number` |")
    assert with_tables(stale) == PAGE.read_text()
