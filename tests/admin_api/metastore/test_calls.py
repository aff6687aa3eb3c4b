"""Each call of a metastore's client is answered, or refused with a reason."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from admin_api.metastore import calls, thrift
from admin_api.metastore.calls import READ_ONLY, answer
from admin_api.metastore.content import Content
from admin_api.metastore.thrift import LIST, STRING, STRUCT, field, record
from tests.support.clock import ManualClock
from tests.support.laked import id_of, make_table
from tests.support.metastore import asked, decode_call, taken_apart

Ask = Callable[..., tuple[str, Mapping[int, Any]]]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    for number, topic in enumerate(["flights", "flies", "a.b"]):
        make_table(tmp_path, topic, topic_id=id_of(number))
    content = Content(tmp_path, ManualClock(0))

    def asks(name: str, *arguments: str | bytes) -> tuple[str, Mapping[int, Any]]:
        call = decode_call(asked(name, *arguments))
        assert call is not None
        return taken_apart(asyncio.run(answer(content, call)))

    return asks


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", [b"a.b", b"flies", b"flights", b"tables"]),
        ("fl*", [b"flies", b"flights"]),
        ("FL.*s", [b"flies", b"flights"]),
        ("a.b|tables", [b"a.b", b"tables"]),
        ("a_b", []),
        ("", [b"a.b", b"flies", b"flights", b"tables"]),
    ],
)
def test_tables_are_listed_by_patterns(
    ask: Ask, pattern: str, names: list[bytes]
) -> None:
    assert ask("get_tables", "lakelog", pattern) == ("gives", {0: names})


def test_a_pattern_that_is_very_long_is_refused(ask: Ask) -> None:
    parts = "|".join(["flights"] * 10_000)
    for name in ("get_tables", "get_tables_by_type"):
        kind, said = ask(name, "lakelog", parts)
        assert kind == "refuses"
        assert b"at most 1000 characters" in said[1]
    assert ask("get_databases", parts)[0] == "refuses"


def test_tables_are_listed_by_their_type(ask: Ask) -> None:
    views = ask("get_tables_by_type", "lakelog", "*", "VIRTUAL_VIEW")
    assert views == ("gives", {0: [b"tables"]})
    tables = ask("get_tables_by_type", "lakelog", "f*", "EXTERNAL_TABLE")
    assert tables == ("gives", {0: [b"flies", b"flights"]})
    assert ask("get_tables_by_type", "lakelog", "*", "X") == ("gives", {0: []})


def test_databases_are_listed_and_described(ask: Ask) -> None:
    assert ask("get_all_databases") == ("gives", {0: [b"default", b"lakelog"]})
    assert ask("get_databases", "l*") == ("gives", {0: [b"lakelog"]})
    assert ask("get_database", "lakelog")[1][0][1] == b"lakelog"
    assert ask("get_database", "x") == ("gives", {1: {1: b"there is no database x"}})


def test_one_table_is_described_in_each_way_it_is_asked_for(ask: Ask) -> None:
    request = field(STRUCT, 1, record(*_named("lakelog", "flights")))
    assert ask("get_table", "lakelog", "flights")[1][0][1] == b"flights"
    assert ask("get_table_req", request)[1][0][1][1] == b"flights"
    missing = ("gives", {2: {1: b"there is no table lakelog.x"}})
    assert ask("get_table", "lakelog", "x") == missing
    request = field(STRUCT, 1, record(*_named("lakelog", "x")))
    assert list(ask("get_table_req", request)[1]) == [2]


def _named(*names: str) -> list[bytes]:
    return [field(STRING, n, thrift.text(name)) for n, name in enumerate(names, 1)]


def test_several_are_described_at_once_but_for_those_that_are_not_there(
    ask: Ask,
) -> None:
    names = field(LIST, 2, thrift.texts(["flights", "x", "a.b"]))
    [found] = ask("get_table_objects_by_name", "lakelog", names)[1].values()
    assert [one[1] for one in found] == [b"flights", b"a.b"]
    request = field(STRUCT, 1, record(*_named("lakelog"), names))
    found = ask("get_table_objects_by_name_req", request)[1][0][1]
    assert [one[1] for one in found] == [b"flights", b"a.b"]


def test_what_is_not_kept_here_is_empty(ask: Ask) -> None:
    assert ask("get_all_functions") == ("gives", {0: {1: []}})
    assert ask("get_functions", "lakelog", "*") == ("gives", {0: []})
    assert list(ask("get_function", "lakelog", "f")[1]) == [2]
    assert ask("get_config_value", "a", "b") == ("gives", {0: b"b"})
    assert ask("set_ugi", "me") == ("gives", {0: []})


@pytest.mark.parametrize("name", sorted(calls._REFUSED))
def test_what_would_change_something_is_refused(ask: Ask, name: str) -> None:
    kind, [raised] = (found := ask(name))[0], found[1].values()
    assert (kind, raised) == ("gives", {1: READ_ONLY.encode()})


def test_what_nobody_knows_is_refused_as_thrift_has_it(ask: Ask) -> None:
    kind, said = ask("get_partitions", "lakelog", "flights")
    assert (kind, said[2]) == ("refuses", 1)
    assert said[1].startswith(b"get_partitions is not known here")


@pytest.mark.parametrize(
    "name", ["get_table", "get_table_req", "get_database", "get_table_objects_by_name"]
)
def test_arguments_that_are_not_there_are_told(ask: Ask, name: str) -> None:
    kind, said = ask(name)
    assert kind == "refuses"
    assert said[1].startswith(f"arguments of {name}".encode())


def test_a_catalog_that_cannot_be_read_is_told(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "catalog.db").unlink()
    kind, said = ask("get_all_tables", "lakelog")
    assert kind == "refuses"
    assert b"catalog" in said[1]


def test_a_pattern_of_many_stars_takes_no_longer_than_a_name_is_long() -> None:
    names = ["a" * 249, "a" * 100 + "b"]
    assert calls._matching("*a" * 30 + "*b", names) == names[1:]
    assert calls._matching("*a" * 30, names) == names[:1]
    assert calls._matching("a*a*b|*a", names) == names


def test_a_table_that_is_named_often_is_described_once(ask: Ask) -> None:
    names = field(LIST, 2, thrift.texts(["flights", "FLIGHTS", "flights"]))
    [found] = ask("get_table_objects_by_name", "lakelog", names)[1].values()
    assert [one[1] for one in found] == [b"flights"]
