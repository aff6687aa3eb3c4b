"""What a table property says of time."""

import pytest

from lakehouse.intervals import interval_ms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("interval 2 days 3 hours", 183_600_000),
        ("INTERVAL 1 week", 604_800_000),
        ("5 minutes", 300_000),
        ("interval 7 second 5 milliseconds", 7_005),
        ("interval 0 days", 0),
        ("interval", None),
        ("interval 2", None),
        ("interval two days", None),
        ("interval 2 months", None),
        ("interval \u00b2 days", None),
        (f"interval {'9' * 5_000} days", None),
    ],
)
def test_a_length_of_time_is_understood_or_not(text: str, found: int | None) -> None:
    assert interval_ms(text) == found
