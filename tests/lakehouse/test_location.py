"""Directories of topics: no two share one, none leads out."""

import os
import string
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import LocationRefused
from lakehouse.location import (
    Names,
    directory_name,
    path_inside,
    set_aside_of,
    set_aside_path,
    set_aside_paths,
    table_path,
)

LEGAL = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=249)
ANY = st.text(max_size=300)


@pytest.mark.parametrize(
    ("topic", "directory"),
    [
        ("orders", "orders"),
        ("Orders", "~orders"),
        ("oRDers", "o~r~ders"),
        ("a.b_c-d9", "a.b_c-d9"),
        ("_delta_log", "~1delta_log"),
        (".hidden", "~2hidden"),
        ("..", "~2~2"),
        (".", "~2"),
        ("a.", "a~2"),
        ("a/b", "a~32f~4b"),
    ],
)
def test_the_encoding(topic: str, directory: str) -> None:
    assert directory_name(topic) == directory


@given(LEGAL, LEGAL)
def test_two_topics_never_share_a_directory_even_without_case(
    one: str, other: str
) -> None:
    same = directory_name(one).casefold() == directory_name(other).casefold()
    assert same == (one == other)


@given(ANY)
def test_any_name_stays_inside_and_fits(tmp_path_factory: object, topic: str) -> None:
    name = directory_name(topic)
    assert 0 < len(name.encode()) <= 255
    assert os.path.basename(name) == name
    assert name[0] not in "._"
    assert name == name.lower()


def test_long_names_that_begin_alike_differ() -> None:
    names = {directory_name("A" * 248 + end) for end in "abAB_."}
    assert len(names) == 6


def test_a_planted_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "orders").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LocationRefused):
        table_path(tmp_path / "warehouse", "orders")


def test_a_warehouse_that_is_itself_a_link_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert table_path(tmp_path / "link", "orders") == str(tmp_path / "link/orders")


def test_what_waits_to_be_deleted_is_named_by_id_and_topic(tmp_path: Path) -> None:
    path = set_aside_path(tmp_path, "Orders", "AB" * 16)
    assert os.path.basename(path) == ".deleted-" + "ab" * 16 + "-~orders"
    with pytest.raises(LocationRefused):
        set_aside_path(tmp_path, "t", "../x")


def test_what_waits_is_found_by_its_id_alone(tmp_path: Path) -> None:
    """The version before named it by the id only."""
    old, other = ".deleted-" + "ab" * 16, ".deleted-" + "ac" * 16
    for name in (old, other, f"{old}-~orders", f"{old}x"):
        (tmp_path / name).mkdir()
    found = set_aside_paths(tmp_path, "AB" * 16)
    assert [os.path.basename(path) for path in found] == [old, f"{old}-~orders"]


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("a/b", "/t/a/b"), ("/t/a", "/t/a"), ("./a", "/t/a"), ("..a", "/t/..a"),
        ("/elsewhere", None), ("../t2/a", None), ("a/../../b", None), ("/t2/a", None),
        ("", None), (".", None),
    ],
)  # fmt: skip
def test_what_does_not_lie_in_the_table_has_no_path_in_it(
    named: str, found: str | None
) -> None:
    assert path_inside("/t", named) == found


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("partition=0/a%20b", "partition=0/a b"),
        ("file:{}/partition=0/a", "partition=0/a"),
        ("file://{}/partition=0/a", "partition=0/a"),
        ("file://localhost{}/partition=0/a", "partition=0/a"),
        ("FILE:{}/x/../partition=0/a%2520%23", "partition=0/a%20#"),
        ("{}/a", "a"), ("{}/.h/a", ".h/a"), ("{}/.h/x/../a", ".h/a"),
        ("file:{}2/a", None), ("file:{}/../a", None), ("file:{}", None),
        ("file://elsewhere{}/a", None), ("s3:{}/a", None), ("s3://b/a", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["t", "w/t", "t of w", "x/w/t"])
def test_a_name_in_a_log_is_one_below_the_table_whatever_way_leads_there(
    tmp_path: Path, named: str, found: str | None, place: str
) -> None:
    """By its own path, or through links: of the warehouse, or to a further one."""
    root = tmp_path / "w" / "t"
    root.mkdir(parents=True)
    (tmp_path / "t").symlink_to("w/t")
    (tmp_path / "t of w").symlink_to(root)
    (tmp_path / "x").symlink_to(tmp_path)
    said = named.format(quote(str(tmp_path / place)))
    assert Names(str(root)).below(said) == (unquote(said) if found is None else found)


def test_a_partition_that_is_a_link_leads_nowhere_else(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    for one in (root, elsewhere):
        one.mkdir()
    (root / "partition=0").symlink_to(elsewhere)
    (tmp_path / "too").symlink_to("t")
    named = f"file:{tmp_path}/too/partition=0/a"
    assert Names(str(root)).below(named) == "partition=0/a"


def test_of_files_in_one_directory_its_way_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large table that is a clone it took seconds, file by file."""
    root, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    for one in (root, elsewhere):
        one.mkdir()
    (tmp_path / "too").symlink_to("t")
    asked: list[object] = []
    same, names = os.path.samefile, Names(str(root))

    def samefile(one: str, other: str) -> bool:
        asked.append(one)
        return same(one, other)

    monkeypatch.setattr(os.path, "samefile", samefile)
    for way in (elsewhere, tmp_path / "too"):
        found = [names.by_place(f"file:{way}/partition=0/{n}") for n in range(9)]
        inside = [f"partition=0/{n}" for n in range(9)]
        assert found == ([None] * 9 if way is elsewhere else inside)
        assert len(set(asked)) == len(asked)
        asked.clear()


@pytest.mark.parametrize(
    "named",
    ["file:/a%00b/c", "file:/a\0b/c", "file:/a/\ud800/c", "file:" + "/a" * 3000],
)
def test_what_no_path_has_is_in_no_table(tmp_path: Path, named: str) -> None:
    """An owner's log may say anything, and must not end who reads it."""
    assert Names(str(tmp_path)).by_place(named) is None


def test_the_tables_of_deleted_topics_of_a_name_are_no_others(tmp_path: Path) -> None:
    for topic, topic_id in (("a", "ab"), ("b-a", "cd"), ("a-b", "ef"), ("A", "12")):
        os.mkdir(set_aside_path(tmp_path, topic, topic_id))
    os.mkdir(tmp_path / ".deleted-34")
    assert set_aside_of(tmp_path, "a") == [str(tmp_path / ".deleted-ab-a")]
    assert set_aside_of(tmp_path, "b-a") == [str(tmp_path / ".deleted-cd-b-a")]
