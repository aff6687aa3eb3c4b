"""Tables in further warehouses: found by their links, and by no other ones."""

import os
import shutil
from pathlib import Path

import pytest

from lakehouse import further, warehouse_names
from lakehouse.errors import CommitRefused, LocationRefused
from lakehouse.location import check_contained, table_path
from tests.support.warehouses import Further


@pytest.fixture
def two(tmp_path: Path) -> Further:
    return Further(tmp_path, "fast", "slow")


def test_a_place_that_leads_into_a_further_warehouse_is_no_other_place(
    two: Further,
) -> None:
    (two.roots["fast"] / "orders").mkdir()
    path = os.path.join(two.warehouse, "orders")
    further.lead(path, "fast")
    assert os.readlink(path) == ".lakelog-warehouses/fast/orders"
    assert table_path(two.warehouse, "orders") == path
    assert os.path.realpath(path) == str(two.roots["fast"] / "orders")
    assert further.named_by(path) == "fast"


def test_a_link_moves_along_with_its_warehouse(two: Further, tmp_path: Path) -> None:
    further.lead(os.path.join(two.warehouse, "orders"), "fast")
    moved = shutil.move(two.warehouse, tmp_path / "moved")
    assert table_path(moved, "orders") == os.path.join(moved, "orders")


@pytest.mark.parametrize(
    "text",
    [
        "{root}/orders", ".lakelog-warehouses/fast/others", "../fast/orders",
        ".lakelog-warehouses/fast/../fast/orders", ".lakelog-warehouses/odd/orders",
        ".lakelog-warehouses/fast.id/orders", ".lakelog-warehouses//orders",
        "./.lakelog-warehouses/fast/orders", "/etc",
    ],
)  # fmt: skip
def test_a_planted_link_is_refused(two: Further, text: str) -> None:
    for name in ("orders", "others"):
        (two.roots["fast"] / name).mkdir()
    path = os.path.join(two.warehouse, "orders")
    os.symlink(text.format(root=two.roots["fast"]), path)
    with pytest.raises(LocationRefused):
        check_contained(path)


def test_a_link_behind_the_link_is_refused(two: Further, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (two.roots["fast"] / "orders").symlink_to(tmp_path / "secret")
    path = os.path.join(two.warehouse, "orders")
    further.lead(path, "fast")
    with pytest.raises(LocationRefused):
        check_contained(path)


def test_a_directory_without_the_mark_is_no_further_warehouse(
    two: Further, tmp_path: Path
) -> None:
    (tmp_path / "secret" / "orders").mkdir(parents=True)
    planted = Path(further.link_of(two.warehouse, "odd"))
    planted.symlink_to(tmp_path / "secret")
    Path(further.id_of(two.warehouse, "odd")).write_text("an id")
    path = os.path.join(two.warehouse, "orders")
    os.symlink(".lakelog-warehouses/odd/orders", path)
    with pytest.raises(LocationRefused, match=r"has no \.lakelog-warehouse"):
        check_contained(path)


@pytest.mark.parametrize(
    ("there", "why"),
    [("nothing", "is its disk mounted"), ("an empty place", "Is its disk mounted"),
     ("another", "is the right disk mounted")],
)  # fmt: skip
def test_a_warehouse_whose_disk_is_not_there(
    two: Further, there: str, why: str
) -> None:
    path = os.path.join(two.warehouse, "orders")
    further.lead(path, "fast")
    two.unmount("fast", there)
    with pytest.raises(LocationRefused, match=f"(?i){why}"):
        check_contained(path)
    assert list(further.present(two.warehouse)) == ["slow"]
    assert further.names(two.warehouse) == ["fast", "slow"]
    two.mount("fast")
    check_contained(path)


def test_a_link_goes_where_the_next_table_lies(two: Further) -> None:
    path = os.path.join(two.warehouse, "orders")
    for name in ("fast", "slow", "slow", None, None, "fast"):
        further.lead(path, name)
        assert further.named_by(path) == name


def test_what_stands_in_the_place_is_not_replaced(two: Further) -> None:
    path = os.path.join(two.warehouse, "orders")
    os.mkdir(path)
    further.lead(path, "fast")  # it was empty
    os.unlink(path)
    os.makedirs(os.path.join(path, "partition=0"))
    with pytest.raises(CommitRefused, match="is in the way"):
        further.lead(path, "fast")
    assert os.listdir(path) == ["partition=0"]


def test_a_warehouse_of_no_name_is_the_one_where_all_tables_lie(two: Further) -> None:
    path = os.path.join(two.warehouse, "orders")
    assert further.base_of(path, "") == further.base_of(path, None) == two.warehouse
    assert warehouse_names.name_of(None) == warehouse_names.name_of({}) == ""
    assert warehouse_names.name_of({warehouse_names.CONFIG: "fast"}) == "fast"
    with pytest.raises(LocationRefused, match=r"is it in lake\.warehouses"):
        further.base_of(path, "odd")
