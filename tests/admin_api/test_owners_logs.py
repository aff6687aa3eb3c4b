"""An owner's tool may write anything into a log: it is shown, or refused in words.

One thing in one entry is made wrong, and all that is said of the table is asked for: as
JSON, for it is there that text which is none is found out.
"""

import copy
import json
import os
from pathlib import Path

import deltalake
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admin_api.commits.history import history
from admin_api.lake import Lake
from admin_api.problems import problem_of
from admin_api.tables.facts import FactsReader
from admin_api.tables.survey import Surveyed, table
from admin_api.versions.lookup import Wanted, look_up
from lakehouse.log.delta_log import entry_path
from tests.support.laked import make_table

WRONG = (
    *(None, "x", "", -1, 0, 2**70, 1.5, True, [], {}, [{}], [["a"]], "\ud83d"),
    *({"a": 1}, {"0": [0, 5]}, {"0": [5, 0]}, {"\ud83d": "\ud83d"}, "9" * 5000),
    *(float("nan"), [None], ["\ud83d"]),
)
WANTED = (Wanted(None, 0, 7), Wanted(None, 1, 0), Wanted(2, None, None))


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    """A lake with a table to which its owner did things, and the table's path."""
    data_dir = tmp_path_factory.mktemp("owned")
    writer = make_table(data_dir, "orders")
    writer.add(0, 0, 5)
    writer.add(0, 5, 10)
    writer.add(1, 0, 4)
    deltalake.DeltaTable(writer.path).optimize.compact()
    return Lake(data_dir), writer.path


def places(found, place=()):
    """Every place in a JSON document, the whole of it first."""
    yield place
    if isinstance(found, dict | list):
        names = found if isinstance(found, dict) else range(len(found))
        for name in names:
            yield from places(found[name], (*place, name))


def changed(found, place, wrong):
    if not place:
        return wrong
    found = copy.deepcopy(found)
    inner = found
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = wrong
    return found


def shown(lake):
    """All that is said of the table."""
    topic = lake.topic("orders")
    facts = FactsReader(lake).of(topic)
    found = table("http://plane", Surveyed(topic, {}, facts, {}, "none", None))
    yield found.model_dump_json().encode()  # a table is shown whatever it is
    asked = [
        lambda: history(lake.snapshot(topic), None, 50).commits,
        *(lambda one=one: [look_up(lake, "orders", one)] for one in WANTED),
    ]
    for ask in asked:
        for one in answered(ask):
            yield one.model_dump_json().encode()


def answered(ask):
    """What is answered; nothing for what is refused by a 4xx."""
    try:
        return ask()
    except Exception as error:
        if problem_of(error).status >= 500:
            raise
        return []


def test_what_nobody_spoilt_is_shown(owned):
    lake, _ = owned
    whole, *rest = shown(lake)
    assert json.loads(whole)["version"] == 4
    assert len(rest) == 5 + len(WANTED)


@settings(max_examples=100, derandomize=True)
@given(st.data())
def test_whatever_is_wrong_is_shown_or_refused(owned, data):
    lake, path = owned
    entry = Path(entry_path(path, data.draw(st.integers(0, 4))))
    text = entry.read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    place = data.draw(st.sampled_from(list(places(actions))[1:]))
    spoilt = changed(actions, place, data.draw(st.sampled_from(WRONG)))
    entry.write_text("\n".join(map(json.dumps, spoilt)))
    try:
        assert all(shown(lake))
    finally:
        entry.write_text(text)
        os.utime(entry.parent)
