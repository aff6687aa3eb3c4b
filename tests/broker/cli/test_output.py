"""What commands print."""

import json

from broker.cli import output


def test_rows_stand_in_columns_under_their_names(capsys):
    found = [{"topic": "a", "n": 1}, {"topic": "longer", "n": None}]
    output.rows(found, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "topic   n",
        "a       1",
        "longer  -",
    ]


def test_no_rows_are_told_as_none(capsys):
    output.rows([], as_json=False)
    assert capsys.readouterr().out == "(none)\n"


def test_rows_for_programs_are_one_json_array(capsys):
    output.rows([{"a": 1}, {"a": None}], as_json=True)
    assert json.loads(capsys.readouterr().out) == [{"a": 1}, {"a": None}]
    output.rows([], as_json=True)
    assert capsys.readouterr().out == "[]\n"


def test_one_thing_is_a_line_for_each_name(capsys):
    output.one({"a": {"k": 1, "l": 2}, "b": [], "c": ["x", 1]}, as_json=False)
    assert capsys.readouterr().out.splitlines() == ["a: k=1,l=2", "b: -", "c: x,1"]


def test_one_thing_for_programs_is_a_json_object(capsys):
    output.one({"a": {"k": 1}}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"a": {"k": 1}}
