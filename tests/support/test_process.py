"""What the programs are started with."""

import re
from pathlib import Path

import pytest

from tests.support.process import FOR_TESTS, lakelog

WORD = re.compile(r"environ\.get\(\s*\"(LAKELOG_[A-Z_]+)\"")


def words() -> set[str]:
    """Those that say to suites how long they are."""
    sources = Path(__file__).parents[1].rglob("*.py")
    return {word for one in sources for word in WORD.findall(one.read_text())}


def test_no_program_is_given_a_word_that_is_for_a_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = words()
    assert "LAKELOG_LOAD_S" in found
    assert {word for word in found if not word.startswith(FOR_TESTS)} == set()
    for word in found:
        monkeypatch.setenv(word, "1")
    assert "flush_ms" in lakelog("config", "show")
