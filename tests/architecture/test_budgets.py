"""Files stay small enough to be read in one sitting."""

from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import PACKAGES, functions, name_of, python_files

FILE_LINES_MAX = 500
TEST_FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70


def too_long(paths: Iterator[Path], lines_max: int) -> dict[str, int]:
    """Name -> lines of the files that have more."""
    lines = {name_of(path): len(path.read_text().splitlines()) for path in paths}
    assert lines
    return {name: count for name, count in lines.items() if count > lines_max}


def test_source_files_keep_to_their_budget() -> None:
    long = too_long(python_files(*PACKAGES), FILE_LINES_MAX)
    assert not long, "two ideas share a file"


def test_functions_keep_to_their_budget() -> None:
    long = {
        f"{name_of(path)}: {name}": lines
        for path in python_files(*PACKAGES)
        for name, lines in functions(path)
        if lines > FUNCTION_LINES_MAX
    }
    assert not long


def test_test_files_keep_to_their_budget() -> None:
    assert not too_long(python_files("tests"), TEST_FILE_LINES_MAX)


def test_what_is_past_a_budget_is_seen() -> None:
    here = Path(__file__)
    assert too_long(iter([here]), 10) == {
        name_of(here): len(here.read_text().splitlines())
    }
    assert dict(functions(here))["too_long"] == 4
