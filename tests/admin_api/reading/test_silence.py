"""A table that cannot be read is named where no record came at all."""

import json
import shutil
from pathlib import Path

import pytest

from admin_api.lake import Lake
from admin_api.problems import Problem
from admin_api.reading.silence import check_places, check_table
from lakehouse.errors import LogDamaged
from lakehouse.log.delta_log import entry_path
from tests.support.laked import make_table, make_topic

SPANS = {0: (0, 30), 1: (0, 5)}


@pytest.fixture
def writer(tmp_path):
    writer = make_table(tmp_path, "orders")
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    return writer


def check(tmp_path, at=0, topic="orders"):
    check_table(Lake(tmp_path), topic, SPANS, {0: at, 1: 5})


def file_with(writer, offset):
    lake = Lake(Path(writer.path).parent.parent)
    files = lake.snapshot(lake.topic("orders")).files.values()
    [found] = [one for one in files if one.first_offset <= offset <= one.last_offset]
    return Path(writer.path) / found.relative_path


def refusal(tmp_path, at=0):
    with pytest.raises(Problem) as caught:
        check(tmp_path, at)
    return caught.value.error_code, caught.value.message


def test_a_table_that_is_whole_is_not_at_fault(writer, tmp_path):
    for at in (0, 15, 20, 29):
        check(tmp_path, at)


def test_a_file_that_is_gone_is_named_and_how_to_read_behind_it(writer, tmp_path):
    gone = file_with(writer, 3)
    gone.unlink()
    code, why = refusal(tmp_path, at=3)
    assert (code, gone.name in why) == (40900, True)
    assert why.startswith("Records of 0:3 and on")
    assert why.endswith("with `at` it is read behind offset 9.")
    check(tmp_path, at=10)


def test_a_file_that_was_cut_is_named(writer, tmp_path):
    cut = file_with(writer, 12)
    size = cut.stat().st_size
    cut.write_bytes(cut.read_bytes()[:-7])
    check(tmp_path, at=3)
    code, why = refusal(tmp_path, at=12)
    assert (code, f"{size - 7} bytes of {size}" in why) == (40900, True)


def test_a_log_that_cannot_be_read_is_named(writer, tmp_path):
    Path(entry_path(writer.path, 1)).write_bytes(b"garbage{")
    with pytest.raises(LogDamaged):
        check(tmp_path)


def test_what_cannot_be_known_is_no_fault(writer, tmp_path):
    check(tmp_path, topic="other")
    shutil.rmtree(writer.path)
    check(tmp_path)
    check(tmp_path / "elsewhere")
    make_topic(tmp_path / "young", "orders")
    check(tmp_path / "young")


def without_bounds(writer, version):
    """As an owner's writer leaves files that keeps no statistics; whose file it is."""
    entry = Path(entry_path(writer.path, version))
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    [add] = [action["add"] for action in actions if "add" in action]
    add["stats"] = json.dumps({"numRecords": 10})
    entry.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    return Path(writer.path) / add["path"]


def test_of_a_place_behind_the_table_nothing_is_due(writer, tmp_path):
    lake, gone = Lake(tmp_path), file_with(writer, 12)
    gone.unlink()
    check_places(lake, "orders", {0: 20, 1: 3})
    check_places(lake, "other", {0: 0})
    with pytest.raises(Problem, match=gone.name):
        check_places(lake, "orders", {1: 3, 0: 19})


def test_another_partitions_file_is_no_fault_of_this_one(writer, tmp_path):
    writer.add(1, 0, 10)
    file_with(writer, 12).unlink()
    lake = Lake(tmp_path)
    check_places(lake, "orders", {1: 3})
    check_table(lake, "orders", SPANS, {0: 30, 1: 3})


def test_a_file_without_bounds_hides_no_other_and_gives_no_advice(writer, tmp_path):
    gone = file_with(writer, 3)
    unbounded = without_bounds(writer, 2)
    check(tmp_path, at=3)
    gone.unlink()
    assert gone.name in refusal(tmp_path, at=3)[1]
    check(tmp_path, at=10)
    unbounded.unlink()
    code, why = refusal(tmp_path, at=10)
    assert (code, unbounded.name in why, "`at`" in why) == (40900, True, False)
