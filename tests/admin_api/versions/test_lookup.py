"""Offset to version and back, also where the log does not reach back."""

from pathlib import Path

import deltalake
import pytest

from admin_api.lake import Lake
from admin_api.problems import Problem
from admin_api.versions.lookup import Wanted, look_up
from lakehouse.errors import TableMissing
from lakehouse.log.delta_log import entry_path
from tests.support.laked import make_table


@pytest.fixture
def writer(tmp_path):
    writer = make_table(tmp_path, "orders")
    for n in range(4):
        writer.add(0, n * 5, n * 5 + 5)
    return writer


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def with_offset(lake, offset, partition=0):
    return look_up(lake, "orders", Wanted(None, partition, offset))


def refusal(lake, *wanted):
    with pytest.raises(Problem) as caught:
        look_up(lake, "orders", Wanted(*wanted))
    return caught.value.error_code, caught.value.message


def test_each_offset_is_in_its_version_and_not_in_the_one_before(writer, lake):
    for offset in range(20):
        found = with_offset(lake, offset)
        assert found.exact
        for version, there in ((found.version, True), (found.version - 1, False)):
            table = deltalake.DeltaTable(writer.path, version=version)
            rows = table.to_pyarrow_table(columns=["offset"]).column(0).to_pylist()
            assert (offset in rows) == there


def test_a_version_says_how_far_it_reaches(writer, lake):
    found = look_up(lake, "orders", Wanted(2, None, None))
    assert (found.version, found.rows, found.files) == (2, 10, 2)
    assert [(one.partition_id, one.end_offset) for one in found.ends] == [(0, 10)]
    assert found.timestamp_ms > 0
    with pytest.raises(TableMissing, match="no version 9"):
        look_up(lake, "orders", Wanted(9, None, None))


def test_what_is_not_in_the_table_is_in_no_version(writer, lake):
    assert refusal(lake, None, 0, 20) == (
        40405,
        "Offset 20 of partition 0 is not in the table, which ends at 20.",
    )
    assert refusal(lake, None, 7, 0)[0] == 40402
    writer.add(1, 30, 31)
    code, why = refusal(lake, None, 1, 5)
    assert (code, "never was" in why) == (40405, True)


def test_where_the_log_does_not_reach_back_the_oldest_version_stands_in(writer, lake):
    deltalake.DeltaTable(writer.path, version=3).create_checkpoint()
    for version in range(3):
        Path(entry_path(writer.path, version)).unlink()
    old, last = with_offset(lake, 2), with_offset(lake, 17)
    assert (old.version, old.exact, last.version, last.exact) == (3, False, 4, True)
    assert with_offset(lake, 12).exact
    Path(entry_path(writer.path, 3)).unlink()
    assert with_offset(lake, 12).timestamp_ms is None


@pytest.mark.parametrize(
    "wanted",
    [(None, None, None), (1, 0, 0), (None, 0, None), (None, None, 0), (1, 0, None)],
)
def test_one_of_the_two_is_asked_for(wanted):
    with pytest.raises(Problem, match="Say partition and offset, or version"):
        Wanted(*wanted).check()
