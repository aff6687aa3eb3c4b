"""Files stay small enough to be read in one sitting."""

import pytest

from tests.architecture.sources import PACKAGES, functions, name_of, python_files

FILE_LINES_MAX = 500
TEST_FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70


@pytest.mark.parametrize("path", python_files(*PACKAGES), ids=name_of)
def test_a_source_file_keeps_to_its_budget(path):
    lines = len(path.read_text().splitlines())
    assert lines <= FILE_LINES_MAX, f"{lines} lines: two ideas share this file"
    long = {name: n for name, n in functions(path) if n > FUNCTION_LINES_MAX}
    assert not long, f"functions past {FUNCTION_LINES_MAX} lines"


@pytest.mark.parametrize("path", python_files("tests"), ids=name_of)
def test_a_test_file_keeps_to_its_budget(path):
    assert len(path.read_text().splitlines()) <= TEST_FILE_LINES_MAX
