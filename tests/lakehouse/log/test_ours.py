"""Which tables get our own entries: those that ask nothing more than we write."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.log.actions import Metadata, Protocol
from lakehouse.log.delta_log import load
from lakehouse.log.ours import (
    why_columns_lost,
    why_not_cleaned,
    why_not_merged,
    why_not_ours,
    why_nothing_leaves,
)
from tests.support.tables import Writer

PLAIN = ("appendOnly", "invariants")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Metadata:
    metadata = load(Writer(str(tmp_path_factory.mktemp("warehouse"))).path).metadata
    assert metadata is not None
    return metadata


def configured(metadata: Metadata, **said: str) -> Metadata:
    properties = {key.replace("__", "."): value for key, value in said.items()}
    return replace(metadata, configuration={**metadata.configuration, **properties})


def changed(metadata: Metadata, change: Callable[[list[Any]], object]) -> Metadata:
    schema = json.loads(metadata.schema_string)
    change(schema["fields"])
    return replace(metadata, schema_string=json.dumps(schema))


def column(kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": "x", "type": kind, "nullable": True, "metadata": {}} | more


def test_a_table_as_it_was_made_is_ours(made: Metadata) -> None:
    assert why_not_ours(Protocol(1, 2), made) is None
    assert why_not_ours(Protocol(1, 2), made, removes=True) is None


@pytest.mark.parametrize(
    "kind",
    [
        "string", "decimal(10,2)",
        {"type": "map", "keyType": "string", "valueType": "long"},
        {"type": "array", "elementType": "date", "containsNull": True},
        {"type": "struct", "fields": [column("double")]},
    ],
)  # fmt: skip
def test_a_column_beside_ours_changes_nothing(made: Metadata, kind: Any) -> None:
    beside = column(kind, metadata={"comment": "his own"})
    assert (
        why_not_ours(Protocol(1, 2), changed(made, lambda f: f.append(beside))) is None
    )


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(1, 3), Protocol(1, 4), Protocol(2, 5), Protocol(1, 7), Protocol(3, 7),
        Protocol(0, 2), Protocol(1, 2, (), ("rowTracking",)), Protocol(1, 2, ("x",)),
    ],
)  # fmt: skip
def test_a_raised_protocol_is_the_librarys(made: Metadata, protocol: Protocol) -> None:
    assert why_not_ours(protocol, made)


@pytest.mark.parametrize(
    ("feature", "said"),
    [
        ("inCommitTimestamp", {"delta__enableInCommitTimestamps": "true"}),
        ("changeDataFeed", {"delta__enableChangeDataFeed": "true"}),
        ("deletionVectors", {"delta__enableDeletionVectors": "true"}),
        ("v2Checkpoint", {"delta__checkpointPolicy": "v2"}),
        ("checkConstraints", {}),
        ("allowColumnDefaults", {}),
        ("identityColumns", {}),
        ("materializePartitionColumns", {}),
        ("checkpointProtection", {}),
    ],
)
def test_features_that_ask_for_nothing_else_leave_a_table_ours(
    made: Metadata, feature: str, said: dict[str, str]
) -> None:
    features = ("appendOnly", "invariants", feature)
    metadata = configured(made, **said)
    for protocol in (Protocol(1, 7, (), features), Protocol(3, 7, (), features)):
        assert why_not_ours(protocol, metadata, removes=True) is None
    assert why_not_ours(Protocol(2, 7, (), features), metadata) is not None


@pytest.mark.parametrize(
    ("feature", "said"),
    [
        ("allowColumnDefaults", {"CURRENT_DEFAULT": "'foo'"}),
        ("identityColumns", {"delta.identity.start": 1, "delta.identity.step": 1}),
    ],
)
def test_a_column_that_has_a_value_of_its_own_stops_a_table_and_the_feature_does_not(
    made: Metadata, feature: str, said: dict[str, Any]
) -> None:
    protocol = Protocol(1, 7, (), (*PLAIN, feature))
    own = changed(made, lambda fields: fields.append(column("long", metadata=said)))
    odd = "these columns are not as they were made: ['x']"
    assert why_not_ours(protocol, own) == why_not_merged(protocol, own) == odd
    of_ours = changed(made, lambda fields: fields[5]["metadata"].update(said))
    assert "['key']" in str(why_not_ours(protocol, of_ours))
    for metadata in (made, changed(made, lambda fields: fields.append(column("long")))):
        assert why_not_ours(protocol, metadata, removes=True) is None
        assert why_not_merged(protocol, metadata) is None


def test_a_feature_that_asks_for_more_is_the_librarys(made: Metadata) -> None:
    why = why_not_ours(Protocol(1, 7, (), (*PLAIN, "clustering")), made)
    assert why == "it has clustering"
    constrained = configured(made, delta__constraints__short="offset < 10")
    checked = Protocol(1, 7, (), (*PLAIN, "checkConstraints"))
    assert why_not_ours(checked, constrained) is None
    assert why_not_ours(checked, constrained, moves=True) is None
    assert why_not_ours(checked, constrained, removes=True) is None
    assert why_not_ours(Protocol(1, 3), constrained, moves=True) is not None


@pytest.mark.parametrize(
    "beside", ["checkpointProtection", "allowColumnDefaults", "vacuumProtocolCheck"]
)
def test_a_constraint_stops_nothing_beside_what_the_library_does_not_know(
    made: Metadata, beside: str
) -> None:
    constrained = configured(made, delta__constraints__short="offset < 10")
    protocol = Protocol(1, 7, (), (*PLAIN, "checkConstraints", beside))
    assert why_not_ours(protocol, constrained) is None


def test_our_files_have_the_partition_column_that_is_asked_for(made: Metadata) -> None:
    asked = configured(made, delta__enableMaterializePartitionColumnsFeature="true")
    protocol = Protocol(1, 7, (), (*PLAIN, "materializePartitionColumns"))
    assert why_not_ours(protocol, asked) is None


def test_rows_are_numbered_for_nobody_unless_that_is_suspended(made: Metadata) -> None:
    protocol = Protocol(1, 7, (), (*PLAIN, "domainMetadata", "rowTracking"))
    tracked = configured(made, delta__enableRowTracking="true")
    for metadata in (made, tracked, configured(made, delta__rowTrackingSuspended="x")):
        why = why_not_ours(protocol, metadata)
        assert "it has rowTracking, and rows are not numbered here" in str(why)
    suspended = configured(
        made, delta__enableRowTracking="false", delta__rowTrackingSuspended="true"
    )
    assert why_not_ours(protocol, suspended, removes=True) is None
    assert why_not_merged(protocol, suspended) is None
    assert why_not_merged(protocol, tracked) == "it has rowTracking"
    both = configured(tracked, delta__rowTrackingSuspended="true")
    assert why_not_ours(protocol, both) == "delta.enableRowTracking is true"


@pytest.mark.parametrize(
    "said",
    [
        {"delta__enableInCommitTimestamps": "true"},
        {"delta__enableRowTracking": "true"},
        {"delta__enableChangeDataFeed": "True"},
        {"delta__enableDeletionVectors": "true"},
        {"delta__columnMapping__mode": "name"},
        {"delta__constraints__short": "offset < 10"},
    ],
)
def test_what_asks_more_of_a_commit_is_the_librarys(
    made: Metadata, said: dict[str, str]
) -> None:
    [(key, value)] = said.items()
    why = why_not_ours(Protocol(1, 2), configured(made, **said))
    assert why == f"{key.replace('__', '.')} is {value}"


def test_what_is_said_to_be_off_is_off(made: Metadata) -> None:
    off = {"delta__enableRowTracking": "false", "delta__columnMapping__mode": "none"}
    assert why_not_ours(Protocol(1, 2), configured(made, **off)) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.append(column("timestamp_ntz")),
        lambda fields: fields.append(column("variant")),
        lambda fields: fields.append(column("long", nullable=False)),
        lambda fields: fields.append(
            column("long", metadata={"delta.identity.start": 1})
        ),
        lambda fields: fields.append(column("long", metadata={"CURRENT_DEFAULT": "1"})),
        lambda fields: fields.append(
            column({"type": "array", "elementType": "variant", "containsNull": True})
        ),
        lambda fields: fields.append({"name": "x"}),
        lambda fields: fields[1]["metadata"].update({"delta.invariants": "{}"}),
        lambda fields: fields.pop(),
    ],
)
def test_columns_that_are_not_plain_are_the_librarys(
    made: Metadata, change: Callable[[list[Any]], object]
) -> None:
    assert why_not_ours(Protocol(1, 2), changed(made, change))


def test_a_table_laid_out_otherwise_is_the_librarys(made: Metadata) -> None:
    assert why_not_ours(Protocol(1, 2), replace(made, partition_columns=("topic",)))
    assert why_not_ours(Protocol(1, 2), replace(made, schema_string="?"))
    assert why_not_ours(Protocol(1, 2), None)


@pytest.mark.parametrize("yes", ["true", "TRUE", "True"])
def test_where_nothing_may_leave_additions_are_ours(made: Metadata, yes: str) -> None:
    metadata = configured(made, delta__appendOnly=yes)
    assert why_not_ours(Protocol(1, 2), metadata) is None
    assert why_nothing_leaves(metadata) == f"delta.appendOnly is {yes}"
    assert why_not_cleaned(Protocol(1, 2), metadata) == why_nothing_leaves(metadata)
    for no in ("false", "False", "none"):
        assert why_nothing_leaves(configured(made, delta__appendOnly=no)) is None
    assert why_nothing_leaves(None) is None


def test_rows_are_moved_where_nobody_asks_for_more(made: Metadata) -> None:
    assert why_not_merged(Protocol(1, 2), made) is None
    assert why_not_merged(Protocol(1, 4), made) is None
    assert why_not_merged(Protocol(1, 7, (), ("checkConstraints",)), made) is None
    locked = configured(made, delta__appendOnly="true")
    assert why_not_merged(Protocol(1, 2), locked) is None
    fed = configured(made, delta__enableChangeDataFeed="true")
    assert why_not_merged(Protocol(1, 4), fed) is None


def test_rows_leave_for_their_keys_sake_where_files_may_be_rewritten(
    made: Metadata,
) -> None:
    assert why_not_cleaned(Protocol(1, 2), made) is None
    locked = configured(made, delta__appendOnly="true")
    assert why_not_cleaned(Protocol(1, 2), locked) == "delta.appendOnly is true"
    tracked = Protocol(1, 7, (), ("rowTracking",))
    assert why_not_cleaned(tracked, made) == "it has rowTracking"
    assert why_not_cleaned(Protocol(1, 2), None)


@pytest.mark.parametrize(
    "feature", ["rowTracking", "clustering", "columnMapping", "typeWidening", "of-2030"]
)
def test_what_asks_for_more_than_rows_is_left_alone(
    made: Metadata, feature: str
) -> None:
    why = why_not_merged(Protocol(3, 7, (), (feature, "appendOnly")), made)
    assert why == f"it has {feature}"
    assert why_not_merged(Protocol(2, 5), made) == "its protocol is 2, 5"


def test_a_column_of_another_type_is_left_alone(made: Metadata) -> None:
    protocol = Protocol(3, 7, ("variantType",), ("timestampNtz",))
    odd = changed(made, lambda columns: columns.append(column("timestamp_ntz")))
    assert "['x']" in str(why_not_merged(Protocol(3, 7, (), ("timestampNtz",)), odd))
    assert why_not_merged(protocol, made) == "it has variantType"
    assert why_not_merged(Protocol(1, 2), None) is not None
    tracked = configured(made, delta__enableRowTracking="true")
    assert "enableRowTracking" in str(why_not_merged(Protocol(1, 2), tracked))


MAPPED = {"delta.columnMapping.physicalName": "col-1"}
PAIR = [column("string", name="key"), column("binary", name="value")]


def pairs(fields: list[Any]) -> dict[str, Any]:
    element = {"type": "struct", "fields": fields}
    return {"type": "array", "elementType": element, "containsNull": True}


def with_type(name: str, kind: Any) -> Callable[[list[Any]], object]:
    def change(fields: list[Any]) -> None:
        [found] = [one for one in fields if one["name"] == name]
        found["type"] = kind

    return change


def without(name: str) -> Callable[[list[Any]], object]:
    return lambda fields: fields.remove(
        next(one for one in fields if one["name"] == name)
    )


def called(name: str, new: str) -> Callable[[list[Any]], object]:
    def change(fields: list[Any]) -> None:
        [found] = [one for one in fields if one["name"] == name]
        found["name"] = new

    return change


def renamed(name: str, new: str) -> Callable[[list[Any]], object]:
    def change(fields: list[Any]) -> None:
        [found] = [one for one in fields if one["name"] == name]
        found["name"] = new
        found["metadata"]["delta.columnMapping.physicalName"] = name

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_type("offset", "integer"), "offset is integer, and was long"),
        (with_type("offset", "decimal(20,0)"), "offset is decimal(20,0), and was long"),
        (with_type("timestamp", "string"), "timestamp is string, and was timestamp"),
        (with_type("timestampType", "string"), "timestampType is string, and was int"),
        (with_type("value", "long"), "value is long, and was binary"),
        (with_type("topic", "integer"), "topic is integer, and was string"),
        (with_type("partition", "date"), "partition is date, and was integer"),
        (
            with_type(
                "headers", {"type": "map", "keyType": "string", "valueType": "x"}
            ),
            "headers is map<string,x>, and was array<struct<key:string,value:binary>>",
        ),
        (
            with_type("headers", pairs([PAIR[0], column("long", name="value")])),
            "headers is array<struct<key:string,value:long>>, and was array",
        ),
        (with_type("headers", pairs(PAIR[:1])), "headers is array<struct<key:string>>"),
        (without("value"), "value is missing, and was binary"),
        (without("headers"), "headers is missing, and was array<struct<key:string,"),
        (called("key", "KEY"), "key is called KEY: write it once more as it was, or"),
        (called("partition", "Partition"), "partition is called Partition: write it"),
        (
            with_type("headers", pairs([column("string", name="Key"), PAIR[1]])),
            "headers is array<struct<Key:string,value:binary>>, and was array<struct<",
        ),
        (with_type("value", pairs(PAIR)["elementType"]), "value is struct<key:string,"),
        (with_type("partition", pairs(PAIR)), "partition is array<struct<key:string,"),
        (lambda fields: fields.clear(), "partition is missing, and was integer, and "),
    ],
)
def test_what_our_files_hold_otherwise_than_the_table_says_is_lost(
    made: Metadata, change: Callable[[list[Any]], object], said: str
) -> None:
    why = why_columns_lost(changed(made, change).schema_string)
    assert why is not None
    assert f"its column {said}" in why
    assert "RESTORE it to the version before if nothing was added since" in why


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: None,
        lambda fields: fields.append(column("variant")),
        lambda fields: fields.reverse(),
        with_type("key", "string"),
        with_type("value", "string"),
        with_type("timestampType", "long"),
        with_type("partition", "long"),
        with_type("partition", "string"),
        with_type("headers", pairs([*PAIR, column("long")])),
        with_type("headers", pairs([column("string", name="value"), PAIR[0]])),
        with_type("headers", pairs([column("string", metadata=MAPPED)])),
        renamed("value", "payload"),
        without("topic"),
        called("topic", "Topic"),
    ],
)
def test_columns_that_our_files_can_be_read_by_are_not_lost(
    made: Metadata, change: Callable[[list[Any]], object]
) -> None:
    assert why_columns_lost(changed(made, change).schema_string) is None


@pytest.mark.parametrize("schema", ["?", "", "[]", '{"fields": [1]}'])
def test_a_schema_that_is_none_is_told_elsewhere(schema: str) -> None:
    assert why_columns_lost(schema) is None


def test_files_are_not_merged_by_columns_that_are_lost(made: Metadata) -> None:
    odd = changed(made, with_type("offset", "integer"))
    why = why_not_merged(Protocol(1, 2), odd)
    assert why == why_columns_lost(odd.schema_string)


def test_of_a_partition_column_that_is_spelled_otherwise_the_way_back_is_told(
    made: Metadata,
) -> None:
    def spell(columns: list[Any]) -> None:
        for one in columns:
            if one["name"] == "partition":
                one["name"] = "PARTITION"

    spelled = replace(changed(made, spell), partition_columns=("PARTITION",))
    for why in (why_not_ours, why_not_merged):
        assert "partition is called PARTITION" in str(why(Protocol(1, 2), spelled))
        none = replace(made, partition_columns=())
        assert why(Protocol(1, 2), none) == "it is not partitioned by partition"
