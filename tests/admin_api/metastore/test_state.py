"""The view of all tables holds what is known of each partition."""

from admin_api.kafka import Watermarks
from admin_api.metastore import state
from admin_api.tables.facts import Files, TableFacts
from admin_api.tables.survey import Surveyed
from broker.status.schema import CompactorStatus, TableState
from broker.topics.topic import Topic
from tests.support.metastore import rows_of

TOPIC = Topic(1, b"0" * 16, "orders", 2)
FILES = Files(count=2, bytes=500, rows=7)
THERE = TableFacts(
    "/t", version=3, files=FILES, partitions={0: FILES}, ends={0: 7, 1: 5}
)
MARKS = {("orders", 0): Watermarks(2, 10, 12), ("orders", 1): Watermarks(0, 5, 5)}


def test_each_partition_is_a_row_of_all_columns() -> None:
    late = TableState("orders", lag_ms=1500, lags_ms={0: 1500}, why="no room")
    one = Surveyed(TOPIC, {}, THERE, MARKS, None, CompactorStatus(tables=(late,)))
    first, second = rows_of(state.query_of([("orders", one)]))
    assert first == {
        "topic": "orders", "partition": 0, "table_name": "orders", "location": "/t",
        "version": 3, "rows": 7, "files": 2, "bytes": 500, "log_start": 2,
        "table_end": 7, "last_stable_offset": 10, "high_watermark": 12,
        "lag_records": 3, "lag_seconds": 1.5, "problem": "no room",
    }  # fmt: skip
    assert set(first) == {one.name for one in state.COLUMNS}
    assert (second["lag_records"], second["lag_seconds"]) == (0, 0.0)


def test_what_only_the_broker_knows_is_null_without_it() -> None:
    one = Surveyed(TOPIC, {0: 4}, TableFacts("/t"), {}, "no broker runs", None)
    first, _ = rows_of(state.query_of([(None, one)]))
    nulls = {name for name, value in first.items() if value is None}
    assert nulls == {
        "table_name", "version", "last_stable_offset", "high_watermark", "lag_records",
        "lag_seconds", "problem",
    }  # fmt: skip
    assert (first["log_start"], first["table_end"]) == (4, 4)


def test_its_text_has_no_character_that_a_session_could_read_otherwise() -> None:
    odd = TableFacts("/it's a \\place`\n", problem="'); DROP")
    query = state.query_of([("orders", Surveyed(TOPIC, {}, odd, {}, None, None))])
    assert "\\" not in query
    assert query.count("'") == 4
    assert rows_of(query)[0]["location"] == odd.location
