"""IncrementalAlterConfigs: set, delete, append, subtract."""

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.config_alter import (
    CHECKED_A_TURN,
    Alteration,
    Operation,
    alter,
    that_matter,
)
from broker.topics.configs import TOPIC_CONFIGS
from tests.support.turns import check_turn, turn_ms

SET, DELETE = Operation.SET, Operation.DELETE
APPEND, SUBTRACT = Operation.APPEND, Operation.SUBTRACT


def test_setting_and_deleting() -> None:
    before = {"retention.ms": "5", "segment.ms": "7"}
    after = alter(
        before,
        [
            Alteration("retention.ms", DELETE, None),
            Alteration("max.message.bytes", SET, "100"),
            Alteration("segment.ms", SET, "8"),
        ],
    )
    assert after == {"segment.ms": "8", "max.message.bytes": "100"}
    assert before == {"retention.ms": "5", "segment.ms": "7"}


def test_deleting_what_is_not_set_is_fine() -> None:
    assert alter({}, [Alteration("retention.ms", DELETE, None)]) == {}
    assert alter({}, [Alteration("no.such.key", DELETE, None)]) == {}


def test_appending_starts_from_what_holds() -> None:
    appended = alter({}, [Alteration("cleanup.policy", APPEND, "compact")])
    assert appended == {"cleanup.policy": "delete,compact"}
    again = alter(appended, [Alteration("cleanup.policy", APPEND, "compact")])
    assert again == appended


def test_appending_starts_from_the_brokers_default() -> None:
    defaults = {"cleanup.policy": "compact"}
    change = [Alteration("cleanup.policy", APPEND, "delete")]
    assert alter({}, change, defaults) == {"cleanup.policy": "compact,delete"}


def test_subtracting_leaves_the_rest() -> None:
    both = {"cleanup.policy": "compact,delete"}
    left = alter(both, [Alteration("cleanup.policy", SUBTRACT, "compact")])
    assert left == {"cleanup.policy": "delete"}
    gone = alter(left, [Alteration("cleanup.policy", SUBTRACT, "delete,compact")])
    assert gone == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    ("alterations", "code"),
    [
        ([("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", -1, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "x")], ErrorCode.INVALID_CONFIG),
        ([("no.such.key", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("no.such.key", APPEND, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_done_is_refused(
    alterations: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        alter({}, [Alteration(*one) for one in alterations])
    assert caught.value.code == code


def test_a_key_named_twice_is_refused_before_anything_else() -> None:
    twice = [("no.such.key", SET, None), ("x", DELETE, None), ("x", DELETE, None)]
    with pytest.raises(KafkaError, match="duplicate config keys") as caught:
        list(that_matter(Alteration(*one) for one in twice))
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_of_many_keys_those_that_matter_are_found_in_turns() -> None:
    set_one = Alteration("retention.ms", SET, "1")
    unknown = (Alteration(str(n), DELETE, None) for n in range(CHECKED_A_TURN))
    steps = that_matter([*unknown, set_one], TOPIC_CONFIGS)
    assert next(steps) is None
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == [set_one]


def test_the_whole_is_checked_and_not_each_change() -> None:
    before = {"max.compaction.lag.ms": "5"}
    raised = [
        Alteration("min.compaction.lag.ms", SET, "9"),
        Alteration("max.compaction.lag.ms", SET, "10"),
    ]
    assert alter(before, raised)["min.compaction.lag.ms"] == "9"
    with pytest.raises(KafkaError):
        alter(before, raised[:1])


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_a_long_list_is_walked_once(operation: Operation) -> None:
    key, count = "leader.replication.throttled.replicas", 3_000
    there = [f"{n}:0" for n in range(count)]
    others = [f"{n}:1" for n in range(count)]
    change = [Alteration(key, operation, ",".join(others))]

    def longest_ms() -> float:
        return turn_ms(lambda: alter({key: ",".join(there)}, change))

    after = alter({key: ",".join(there)}, change)[key].split(",")
    assert after == (there + others if operation is APPEND else there)
    check_turn(f"{operation.name} of a list", longest_ms)
