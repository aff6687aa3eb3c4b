"""What names the time of asking is one constant of a run; nothing else is changed."""

import pytest

from jobs.erasing.moments import at_moment

NOW = "timestamp_micros(7)"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("timestamp < current_timestamp() - INTERVAL 30 DAYS",
         f"timestamp < {NOW} - INTERVAL 30 DAYS"),
        ("timestamp < CURRENT_TIMESTAMP", f"timestamp < {NOW}"),
        ("timestamp < now ( /* all */ )", f"timestamp < {NOW}"),
        ("CAST(timestamp AS DATE) < curdate()",
         f"CAST(timestamp AS DATE) < CAST({NOW} AS DATE)"),
        ("current_date > current_date()",
         f"CAST({NOW} AS DATE) > CAST({NOW} AS DATE)"),
        ("localtimestamp() > a", f"CAST({NOW} AS TIMESTAMP_NTZ) > a"),
        ("unix_timestamp() > a", f"unix_timestamp({NOW}) > a"),
        ("unix_timestamp(timestamp) > 5", "unix_timestamp(timestamp) > 5"),
        ("theirs = 'now()' OR \"current_date\" = 'x' -- now()",
         "theirs = 'now()' OR \"current_date\" = 'x' -- now()"),
        ("`current_date` = 1 AND now = 2", "`current_date` = 1 AND now = 2"),
        ("s.current_date = 1", "s.current_date = 1"),
        ("'{}' = a AND b < now()", f"'{{}}' = a AND b < {NOW}"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_time_of_asking_is_a_constant(expression: str, expected: str) -> None:
    assert at_moment(expression, 7, frozenset({"timestamp"})) == expected


def test_a_column_of_that_name_is_what_is_meant() -> None:
    columns = frozenset({"current_date"})
    assert at_moment("current_date < 5", 7, columns) == "current_date < 5"
