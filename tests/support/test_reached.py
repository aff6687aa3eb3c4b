"""What was asked is told in lines, and read out of them again."""

import pytest

from tests.support.reached import hear, lines_of, pairs, telling


def test_pairs_become_lines_and_lines_pairs() -> None:
    asked = {(0, 3), (0, 4), (0, 5), (0, 7), (18, 0), (3, 13)}
    lines = lines_of(asked)
    assert lines == [
        "asked PRODUCE v3-5,7",
        "asked METADATA v13",
        "asked API_VERSIONS v0",
    ]
    assert set(pairs(lines)) == asked


def test_other_lines_say_nothing() -> None:
    assert not list(pairs(["asked", "produced, asked PRODUCE v3", "asked PRODUCE", ""]))


def test_a_name_that_no_api_has_is_an_error() -> None:
    with pytest.raises(KeyError):
        list(pairs(["asked NOTHING v0"]))


def test_a_table_tells_what_was_heard_for_it_and_no_more() -> None:
    @telling
    def table(bootstrap: str, version: int) -> list[str]:
        hear(3, version)
        return [bootstrap]

    assert table("here", 4) == ["asked METADATA v4", "here"]
    assert table("here", 5) == ["asked METADATA v5", "here"]
