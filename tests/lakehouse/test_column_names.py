"""A column of ours is what is called so, or else the only one but for the case."""

import pytest

from lakehouse.column_names import OURS, alike, renamed, spelled, value_of
from lakehouse.errors import TableUnreadable
from lakehouse.schema import WRITE


def test_these_are_our_columns() -> None:
    assert list(OURS) == WRITE.names


def test_what_is_called_exactly_so_is_meant_alone() -> None:
    assert alike("key", ["Key", "key", "KEY"]) == ["key"]
    assert alike("key", ["Key", "keys", "KEY"]) == ["Key", "KEY"]
    assert alike("timestampType", ["TIMESTAMPTYPE"]) == ["TIMESTAMPTYPE"]
    assert alike("key", []) == []


def test_what_is_said_of_one_of_several_is_said_of_nobody() -> None:
    assert value_of({"Offset": 3, "key": 1}, "offset") == 3
    assert value_of({"Offset": 3, "offset": None}, "offset") is None
    assert value_of({"Offset": 3, "OFFSET": 3}, "offset") is None
    assert value_of({}, "offset") is None


def test_which_of_several_a_file_means_is_told_by_nobody() -> None:
    assert spelled("value", ["Value"], "a/b.parquet") == "Value"
    assert spelled("value", ["key"], "a/b.parquet") is None
    why = r"b\.parquet has the columns Value and VALUE, and none is called value"
    with pytest.raises(TableUnreadable, match=why):
        spelled("value", ["Value", "VALUE"], "a/b.parquet")


def test_only_what_is_called_otherwise_is_renamed() -> None:
    assert renamed(WRITE.names, "a") == {}
    assert renamed(["offset", "KEY", "Mine", "key"], "a") == {}
    assert renamed(["OFFSET", "KEY", "Mine"], "a") == {"OFFSET": "offset", "KEY": "key"}
