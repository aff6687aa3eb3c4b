"""Definitions are read as they are written, and what is not the notation is told."""

import pytest

from broker.protocol.schema import Struct, default_of, definition, parse, structs
from tests.broker.protocol.values import EVERY, api

TEXT = """
Ping  key 7  versions 1-3  flexible 2+

PingRequest
  names            1-2  []string?2+
  parts            1+   []Part
    id             1+   int32        = -1
    home           2+   Place?       = null
      host         2+   string
  extra            3    uuid         tag 1
  leader           2+   Place        tag 0

PingResponse
  home             1+   Place
"""


def field(struct: Struct, name: str):
    return next(f for f in struct.fields if f.name == name)


def test_a_definition_is_read():
    ping = parse(TEXT)
    assert (ping.name, ping.key, ping.versions) == ("Ping", 7, range(1, 4))
    assert [ping.flexible(v) for v in (1, 2)] == [False, True]
    names = field(ping.request, "names")
    assert (names.type, names.array, names.versions) == ("string", True, range(1, 3))
    assert [v in names.null_versions for v in (1, 2)] == [False, True]
    assert field(ping.request, "extra").versions == range(3, 4)


def test_a_structure_is_described_once_and_used_by_name():
    ping = parse(TEXT)
    place = field(ping.response, "home").type
    assert isinstance(place, Struct)
    assert [f.name for f in place.fields] == ["host"]
    part = field(ping.request, "parts").type
    assert field(part, "home").type is place
    assert [s.name for s in structs([ping.request])] == ["Place", "Part", "PingRequest"]


def test_tagged_fields_stand_apart_and_rise():
    request = parse(TEXT).request
    assert [f.name for f in request.at(3)] == ["parts"]
    assert [f.name for f in request.tagged_at(3)] == ["leader", "extra"]


def test_what_has_no_arrays_is_brief():
    ping = parse(TEXT)
    assert [ping.response.is_brief(v) for v in (1, 3)] == [True, True]
    assert not ping.request.is_brief(2)
    tagged = parse(TEXT.replace("extra            3    uuid", "extra  3  []uuid"))
    assert not tagged.request.is_brief(3)
    assert not parse(
        TEXT.replace("host         2+   s", "host  2+  []s")
    ).response.is_brief(2)
    only_since = TEXT.replace("host         2+   s", "host  3  []s")
    assert [parse(only_since).response.is_brief(v) for v in (2, 3)] == [True, False]


def test_defaults_are_expressions():
    request = parse(TEXT).request
    part = field(request, "parts").type
    values = {f.name: default_of(f) for s in (request, part) for f in s.fields}
    assert values == {
        "names": "[]",
        "parts": "[]",
        "extra": "NO_UUID",
        "leader": "None",
        "id": "-1",
        "home": "None",
    }


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Ping  key", "Ping key"),
        ("PingResponse", "Response"),
        ("  names            1-2", " names            1-2"),
        ("    id  ", "     id "),
        ("Place        tag", "Plaice       tag"),
    ],
)
def test_what_is_not_the_notation_is_told(right, wrong):
    with pytest.raises((AssertionError, KeyError)):
        parse(TEXT.replace(right, wrong))


@pytest.mark.parametrize("key", sorted({case[0] for case in EVERY}))
def test_every_definition_describes_its_api(key):
    described = api(key)
    assert described.key == key
    assert described is definition(key.name.lower())
    for message in (described.request, described.response):
        for version in described.versions:
            tags = [f.tag for f in message.tagged_at(version)]
            assert tags == sorted(set(tags))
            assert not tags or described.flexible(version)
