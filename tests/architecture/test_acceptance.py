"""Each rule of the acceptance list is held by tests that are there and run."""

import ast
import itertools
from functools import cache
from pathlib import Path

import pytest

from tests.acceptance.rules import Rule, parse, rules
from tests.architecture.sources import ROOT

TESTS = ROOT / "tests"
RULES = rules()
MARKS = "pytestmark"


ELSEWHERE = {"foreign", "slow", "shared_out", "skip", "skipif"}
"""Marks of what `make test` leaves out, at times or always, or skips where something is
not installed."""


def _marks(node: ast.AST) -> set[str]:
    """The names of the marks in a decorator, or in a module's list of them."""
    return {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


@cache
def collected(path: Path) -> dict[str, set[str]]:
    """The tests that pytest finds in a file, each with the names of its marks."""
    body = ast.parse(path.read_text()).body
    of_all = set[str]()
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == MARKS:
            of_all = _marks(node.value)
    return {
        node.name: of_all.union(*map(_marks, node.decorator_list))
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def lacking(rule: Rule) -> list[str]:
    """The tests of a rule that nobody would run."""
    gone = []
    for test in rule.tests:
        name, _, function = test.partition("::")
        path = TESTS / name
        is_found = path.name.startswith("test_") and path.is_file()
        if not is_found or function not in collected(path):
            gone.append(test)
    return gone


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.number)
def test_a_rule_is_held_by_tests_or_left_out_for_a_reason(rule: Rule) -> None:
    assert bool(rule.tests) != bool(rule.left_out)
    assert not lacking(rule)
    assert len({*rule.tests}) == len(rule.tests)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.number)
def test_one_of_its_tests_runs_wherever_all_tests_do(rule: Rule) -> None:
    places = [test.partition("::") for test in rule.tests]
    marks = [collected(TESTS / name)[function] for name, _, function in places]
    assert rule.left_out or not all(ELSEWHERE & each for each in marks)


def test_numbers_rise_and_none_is_given_twice() -> None:
    numbers = [tuple(map(int, rule.number.split("."))) for rule in RULES]
    assert numbers == sorted(set(numbers))
    for before, after in itertools.pairwise(numbers):
        is_next = after == (*before[:2], before[2] + 1)
        assert is_next or after[2] == 1, f"one lacks before {after}"


def test_what_nobody_would_run_is_seen() -> None:
    (rule,) = parse(
        [
            "1.1.1 something",
            "    architecture/test_acceptance.py::test_what_nobody_would_run_is_seen",
            "    architecture/test_acceptance.py::test_that_is_none",
            "    architecture/test_nowhere.py::test_that_is_none",
            "    architecture/sources.py::functions",
        ]
    )
    assert [test.rpartition("::")[2] for test in lacking(rule)] == [
        "test_that_is_none", "test_that_is_none", "functions",
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["4.1 something", "    a test of nothing", "x", ""])
def test_a_line_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no rule"):
        list(parse([line]))
