"""The life of a table that lies in a further warehouse."""

import contextlib
import os
from pathlib import Path

import pytest

from lakehouse import further, tables, warehouse_names
from lakehouse.errors import CommitRefused, LocationRefused, TableMissing
from lakehouse.location import table_path
from lakehouse.log import delta_log
from lakehouse.tables import create_table, drop, lead_again, leave_place, take_back
from tests.support.warehouses import Further

ONE, OTHER = "ab" * 16, "cd" * 16


@pytest.fixture
def two(tmp_path: Path) -> Further:
    return Further(tmp_path, "fast", "slow")


def make(
    two: Further, topic_id: str = ONE, name: str = "fast", topic: str = "t"
) -> str:
    configs = {warehouse_names.CONFIG: name} if name else {}
    return create_table(two.warehouse, topic, topic_id, 1, configs=configs)


def seen(two: Further) -> dict[str, str]:
    """Where tables are -> whose."""
    places = {"": two.warehouse, **further.present(two.warehouse)}
    return {
        os.path.join(name, one): delta_log.load(os.path.join(base, one)).topic_id
        for name, base in places.items()
        for one in sorted(os.listdir(base))
        if not os.path.islink(os.path.join(base, one))
        and os.path.isdir(os.path.join(base, one, "_delta_log"))
    }


ASIDE = f".deleted-{ONE}-t"


def test_a_table_lies_where_its_topic_says(two: Further) -> None:
    path = make(two)
    assert path == table_path(two.warehouse, "t") == os.path.join(two.warehouse, "t")
    assert seen(two) == {"fast/t": ONE}
    assert make(two) == path
    make(two, OTHER, "", "plain")
    assert seen(two) == {"fast/t": ONE, "plain": OTHER}


def test_names_that_differ_in_case_have_tables_of_their_own(two: Further) -> None:
    make(two, ONE, topic="orders")
    make(two, OTHER, topic="Orders")
    assert seen(two) == {"fast/orders": ONE, "fast/~orders": OTHER}


def test_nothing_is_made_where_the_disk_is_not_there(two: Further) -> None:
    for there in ("nothing", "an empty place", "another"):
        two.unmount("fast", there)
        with pytest.raises(LocationRefused):
            make(two)
        two.mount("fast")  # which fails if anything was written there
    assert not os.path.lexists(os.path.join(two.warehouse, "t"))
    make(two)
    two.unmount("fast")
    for act in (make, lambda two: drop(two.warehouse, "t", ONE, "fast")):
        with pytest.raises(LocationRefused):
            act(two)
    with pytest.raises(LocationRefused):
        make(two, OTHER, "")
    two.mount("fast")
    assert seen(two) == {"fast/t": ONE}


@pytest.mark.parametrize("name", ["fast", "slow", ""])
def test_the_next_topic_of_the_name_may_lie_elsewhere(two: Further, name: str) -> None:
    make(two)
    make(two, OTHER, name)
    assert seen(two) == {f"fast/{ASIDE}": ONE, os.path.join(name, "t"): OTHER}
    assert drop(two.warehouse, "t", ONE, "fast")
    assert seen(two) == {os.path.join(name, "t"): OTHER}


def test_a_plain_table_is_set_aside_for_one_in_a_further_warehouse(
    two: Further,
) -> None:
    make(two, ONE, "")
    make(two, OTHER)
    assert seen(two) == {ASIDE: ONE, "fast/t": OTHER}


def test_a_deleted_topics_table_waits_in_its_warehouse_and_comes_back(
    two: Further,
) -> None:
    path = make(two)
    leave_place(two.warehouse, "t", OTHER)
    assert seen(two) == {"fast/t": ONE}
    leave_place(two.warehouse, "t", ONE)
    assert seen(two) == {f"fast/{ASIDE}": ONE}
    assert not os.path.lexists(path)
    assert take_back(two.warehouse, "t", ONE) == path
    assert seen(two) == {"fast/t": ONE}
    assert table_path(two.warehouse, "t") == path
    assert drop(two.warehouse, "t", ONE, "fast")
    assert seen(two) == {}
    assert not os.path.lexists(path)
    assert not drop(two.warehouse, "t", ONE, "fast")


def test_it_comes_back_where_another_topics_table_stands_elsewhere(
    two: Further,
) -> None:
    make(two)
    make(two, OTHER, "slow")
    take_back(two.warehouse, "t", ONE)
    assert seen(two) == {"fast/t": ONE, f"slow/.deleted-{OTHER}-t": OTHER}
    take_back(two.warehouse, "t", OTHER)
    assert seen(two) == {f"fast/{ASIDE}": ONE, "slow/t": OTHER}


def test_it_is_not_missing_while_a_disk_is_not_there(two: Further) -> None:
    make(two)
    leave_place(two.warehouse, "t", ONE)
    two.unmount("fast")
    with pytest.raises(LocationRefused, match="Is its disk mounted"):
        take_back(two.warehouse, "t", ONE)
    two.mount("fast")
    with pytest.raises(TableMissing):
        take_back(two.warehouse, "t", OTHER)


class Killed(BaseException):
    """The process ends here."""


STEPS = ("sync_directory", "sync_file", "further.lead", "os.rename", "shutil.rmtree",
         "os.makedirs", "_create")  # fmt: skip


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("life", ["make", "aside", "replace", "back", "drop"])
def test_who_is_killed_in_between_goes_on_from_there(
    two: Further, monkeypatch: pytest.MonkeyPatch, life: str, step: str, is_after: bool
) -> None:
    """At the nth call of each step, before it and after it."""
    acts = {
        "make": lambda: make(two),
        "aside": lambda: leave_place(two.warehouse, "t", ONE),
        "replace": lambda: make(two, OTHER, "slow"),
        "back": lambda: take_back(two.warehouse, "t", ONE),
        "drop": lambda: drop(two.warehouse, "t", ONE, "fast"),
    }
    ends = {
        "make": {"fast/t": ONE},
        "aside": {f"fast/{ASIDE}": ONE},
        "replace": {f"fast/{ASIDE}": ONE, "slow/t": OTHER},
        "back": {"fast/t": ONE},
        "drop": {},
    }
    if life != "make":
        make(two)
    if life == "back":
        leave_place(two.warehouse, "t", ONE)
    for nth in range(1, 10):
        with monkeypatch.context() as patched:
            is_over = _die_at(patched, step, nth, is_after=is_after)
            with contextlib.suppress(Killed):
                acts[life]()
            if is_over():
                break
    acts[life]()
    assert seen(two) == ends[life]
    path = os.path.join(two.warehouse, "t")
    is_there = "aside" not in life and life != "drop"
    if life != "aside":  # there a link may be left, which leads to nothing
        assert os.path.lexists(path) == is_there
    assert os.path.exists(path) == is_there
    if life == "aside":
        drop(two.warehouse, "t", ONE, "fast")
        assert seen(two) == {}
        assert not os.path.lexists(path)


def _die_at(patched, step, nth, *, is_after):  # type: ignore[no-untyped-def]
    """Have the nth call of a step be the last; whether there were not so many."""
    module, _, name = step.rpartition(".")
    owner = getattr(tables, module) if module else tables
    real, calls = getattr(owner, name), [0]

    def call(*args, **kwargs):  # type: ignore[no-untyped-def]
        calls[0] += 1
        if calls[0] == nth and not is_after:
            raise Killed
        found = real(*args, **kwargs)
        if calls[0] == nth:
            raise Killed
        return found

    patched.setattr(owner, name, call)
    return lambda: calls[0] < nth


def test_a_table_whose_link_was_lost_has_it_again(two: Further) -> None:
    path = make(two)
    os.unlink(path)
    assert make(two) == path
    assert seen(two) == {"fast/t": ONE}
    os.unlink(path)
    make(two, OTHER)
    assert seen(two) == {f"fast/{ASIDE}": ONE, "fast/t": OTHER}


def test_a_deleted_topics_table_goes_though_its_link_was_lost(two: Further) -> None:
    """Nobody would know it any more, and it has what was to be deleted."""
    os.unlink(make(two))
    for topic_id, name in ((OTHER, "fast"), (ONE, "slow"), (ONE, "")):
        assert not drop(two.warehouse, "t", topic_id, name)
        assert seen(two) == {"fast/t": ONE}, "an owner's copy, for all we know"
    leave_place(two.warehouse, "t", ONE, "fast")
    assert seen(two) == {f"fast/{ASIDE}": ONE}
    assert drop(two.warehouse, "t", ONE, "fast")
    assert seen(two) == {}


def test_it_goes_beside_the_next_topic_of_the_name(two: Further) -> None:
    os.unlink(make(two))
    make(two, OTHER, "slow")
    assert drop(two.warehouse, "t", ONE, "fast")
    assert seen(two) == {"slow/t": OTHER}


def test_a_table_that_lost_its_link_before_it_was_set_aside_comes_back(
    two: Further,
) -> None:
    path = make(two)
    os.unlink(path)
    assert take_back(two.warehouse, "t", ONE) == path
    assert further.named_by(path) == "fast"
    assert seen(two) == {"fast/t": ONE}


def test_a_link_that_was_lost_is_made_again_to_the_topics_own_table(
    two: Further,
) -> None:
    path = make(two)
    assert not lead_again(two.warehouse, "t", ONE, "fast"), "it is there"
    os.unlink(path)
    for topic_id, name in ((OTHER, "fast"), (ONE, "slow"), (ONE, "")):
        assert not lead_again(two.warehouse, "t", topic_id, name)
        assert not os.path.lexists(path)
    two.unmount("fast")
    assert not lead_again(two.warehouse, "t", ONE, "fast")
    two.mount("fast")
    assert lead_again(two.warehouse, "t", ONE, "fast")
    assert seen(two) == {"fast/t": ONE}


def test_a_table_that_its_owner_moved_back_is_taken_where_it_is(two: Further) -> None:
    path = make(two)
    os.unlink(path)
    os.rename(two.roots["fast"] / "t", path)
    assert make(two) == path
    assert seen(two) == {"t": ONE}


def test_a_warehouse_that_was_given_up_holds_nobody_up(two: Further) -> None:
    path = make(two)
    two.unmount("fast", "nothing")
    os.unlink(further.link_of(two.warehouse, "fast"))
    with pytest.raises(LocationRefused, match="there is no warehouse 'fast'"):
        make(two)
    assert not drop(two.warehouse, "t", ONE, "fast")
    assert not os.path.lexists(path)


def test_what_is_no_table_is_not_replaced(two: Further) -> None:
    os.makedirs(os.path.join(two.warehouse, "t", "partition=0"))
    with pytest.raises(CommitRefused, match="is in the way"):
        make(two)


BORN = "00000000000000000000.json"


@pytest.mark.parametrize("left", [[], [f"{BORN}#1"], [f"{BORN}#2", f"{BORN}.torn"]])
def test_what_a_killed_creation_left_is_in_no_ones_way(
    two: Further, left: list[str]
) -> None:
    log = Path(two.warehouse, "t", "_delta_log")
    log.mkdir(parents=True)
    for name in left:
        log.joinpath(name).write_text("{")
    make(two)
    assert seen(two) == {"fast/t": ONE}


@pytest.mark.parametrize("name", ["fast", ""])
def test_a_deleted_topics_table_comes_back_where_a_creation_was_killed(
    two: Further, name: str
) -> None:
    path = make(two, ONE, name)
    leave_place(two.warehouse, "t", ONE, name)
    Path(path, "_delta_log").mkdir(parents=True)
    Path(path, "_delta_log", f"{BORN}#1").write_text("{")
    assert take_back(two.warehouse, "t", ONE) == path
    assert seen(two) == {os.path.join(name, "t"): ONE}


@pytest.mark.parametrize("name", ["fast", ""])
@pytest.mark.parametrize("is_behind", [True, False])
def test_a_deleted_topics_table_does_not_go_over_what_came_late_to_its_place(
    two: Further, name: str, is_behind: bool
) -> None:
    """A file of an engine that had looked before the table left."""
    path = Path(make(two, ONE, name))
    place = Path(os.path.realpath(path)) if is_behind else path
    leave_place(two.warehouse, "t", ONE, name)
    late = place / "partition=0" / "late.parquet"
    late.parent.mkdir(parents=True)
    late.write_text("kept")
    for _ in range(2):
        with pytest.raises(CommitRefused, match=f"{place} is in the way.*move it away"):
            take_back(two.warehouse, "t", ONE)
    assert late.read_text() == "kept"
    assert seen(two) == {os.path.join(name, ASIDE): ONE}
    place.rename(place.with_name("moved"))
    assert take_back(two.warehouse, "t", ONE) == str(path)
    assert seen(two) == {os.path.join(name, "t"): ONE}


@pytest.mark.parametrize("theirs", ["_delta_log/notes", "_delta_log/a/b", "notes"])
def test_what_somebody_else_put_beside_it_stays(two: Further, theirs: str) -> None:
    log = Path(two.warehouse, "t", "_delta_log")
    log.mkdir(parents=True)
    (log / f"{BORN}#1").write_text("{")
    path = Path(two.warehouse, "t", theirs)
    path.parent.mkdir(exist_ok=True)
    path.write_text("kept")
    with pytest.raises(CommitRefused, match="is in the way"):
        make(two)
    assert path.read_text() == "kept"
    assert (log / f"{BORN}#1").exists()
