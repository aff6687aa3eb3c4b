"""Which warehouse a topic's table lies in: allowed once, and kept."""

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.configs import LAKE_WAREHOUSE, validate
from broker.topics.warehouses import check_allowed, check_kept, name_of
from lakehouse import warehouse_names

FAST = {LAKE_WAREHOUSE: "fast"}


def test_the_name_is_the_same_where_tables_are_made() -> None:
    assert LAKE_WAREHOUSE == warehouse_names.CONFIG
    assert name_of(FAST) == warehouse_names.name_of(FAST) == "fast"
    assert name_of({}) == warehouse_names.name_of({}) == ""


@pytest.mark.parametrize("name", ["fast", "a", "0-9", "x" * 63, ""])
def test_names(name: str) -> None:
    assert validate({LAKE_WAREHOUSE: name}) == {LAKE_WAREHOUSE: name}
    assert not name or warehouse_names.NAME.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["Fast", "/fast", "..", "a/b", "a.id", "-a", "x" * 64, "a b", "ä"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    assert not warehouse_names.NAME.fullmatch(name)
    with pytest.raises(KafkaError, match="name of a warehouse") as refused:
        validate({LAKE_WAREHOUSE: name})
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_what_the_operator_does_not_allow_is_refused() -> None:
    for configs in ({}, {LAKE_WAREHOUSE: ""}, FAST):
        check_allowed(configs, {"fast", "slow"})
    for names, told in (({"slow", "big"}, "are: big, slow"), (set[str](), "are: none")):
        with pytest.raises(KafkaError, match=told) as refused:
            check_allowed(FAST, names)
        assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_a_table_is_not_moved_by_a_configuration() -> None:
    plain, slow = {"retention.ms": "1"}, {LAKE_WAREHOUSE: "slow"}
    for before, after in (
        (FAST, FAST | plain),
        (plain, {}),
        ({}, {LAKE_WAREHOUSE: ""}),
    ):
        check_kept(before, after)
    for before, after in ((FAST, slow), (FAST, plain), (plain, FAST)):
        with pytest.raises(KafkaError, match="set when a topic is created") as refused:
            check_kept(before, after)
        assert refused.value.code == ErrorCode.INVALID_CONFIG
