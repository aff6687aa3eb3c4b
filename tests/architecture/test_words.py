"""One word for each idea, and Kafka's where Kafka has one: old words do not come back.

Names are looked at, of whatever is defined in the sources: prose may use any word.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGES, name_of, python_files

STANDARD = {
    "settle": "commit, complete, flush or await_all",
    "settled": "committed or completed",
    "tell": "report, notify or log",
    "told": "reported, notified or logged",
    "let_go": "release, leave or delete",
    "horizon": "durable_end or committed_position",
    "come_back": "restore",
    "come_in": "add_member",
    "knock": "assign_member_id",
    "turn_away": "reject_full",
    "bury": "mark_dead",
    "hand_out": "complete_sync",
    "give_again": "resend_assignment",
    "courtesy": "CpuThrottle",
    "put_by": "stash",
    "put_aside": "stash",
    "unfold": "decompress",
    "hurry": "evict",
    "helper": "what it does",
    "manager": "what it does",
    "impl": "what it does",
}
"""Word, or words joined by underscores -> what is said instead."""


def names(tree: ast.AST) -> Iterator[str]:
    """Everything that gets a name: functions, classes, arguments, variables, fields."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr


def old_words(name: str) -> list[str]:
    """The words of a name that have a standard one."""
    camel = name != name.upper()
    snake = "".join("_" + c if c.isupper() and camel else c for c in name).lower()
    return [word for word in STANDARD if f"_{word}_" in f"_{snake}_"]


def wrong_names(path: Path) -> dict[str, list[str]]:
    """Names of a file that use such a word -> what is said instead."""
    found = {*names(ast.parse(path.read_text())), path.stem}
    wrong = {name: [STANDARD[w] for w in old_words(name)] for name in sorted(found)}
    return {name: words for name, words in wrong.items() if words}


def test_no_name_uses_a_word_that_has_a_standard() -> None:
    wrong = {name_of(path): wrong_names(path) for path in python_files(*PACKAGES)}
    assert wrong
    assert not {name: found for name, found in wrong.items() if found}


def test_a_name_with_an_old_word_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "teller.py"
    path.write_text("def tell_all(let_go: int) -> None:\n    self.horizon = let_go\n")
    assert wrong_names(path).keys() == {"tell_all", "let_go", "horizon"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_let_go", ["let_go"]),
        ("tell_all", ["tell"]),
        ("GroupManager", ["manager"]),
        ("teller", []),
        ("untold_ms", []),
        ("SEGMENT_HORIZON", ["horizon"]),
    ],
)
def test_words_are_whole_words(name: str, words: list[str]) -> None:
    assert old_words(name) == words
