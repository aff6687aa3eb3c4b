"""What a table property says of time."""

import pytest

from lakehouse.intervals import first_ms, interval_ms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("interval 2 days 3 hours", 183_600_000),
        ("INTERVAL 1 week", 604_800_000),
        ("5 minutes", 300_000),
        ("interval 7 second 5 milliseconds", 7_005),
        ("interval 0 days", 0),
        ("interval +60 days", 5_184_000_000),
        ("interval 60 days 0 microseconds", 5_184_000_000),
        ("interval 5184000.0 seconds", 5_184_000_000),
        ("interval 5184000000000 microseconds", 5_184_000_000),
        ("  INTERVAL \t+ 2\nWeeks  -3 days ", 11 * 86_400_000),
        ("interval 1 hour -90 minutes 31 minutes", 60_000),
        ("interval 1.0015009 seconds", 1_001),
        ("interval 2. second +.25 seconds -0.5 seconds", 1_750),
        ("interval 0.000999999 seconds", 0),
        ("interval 1 day 1 month -1 months 0 years", 86_400_000),
        (f"interval {'0' * 5_000}60 days", 5_184_000_000),
        ("interval 106751991 days", 106_751_991 * 86_400_000),
        ("interval 213503983 days", 213_503_983 * 86_400_000),
        ("interval 2147483647 days", 2_147_483_647 * 86_400_000),
        ("interval 2 days -1 hours", 169_200_000),
        ("interval -1 days 48 hours", 86_400_000),
        ("interval 106751992 days -24 hours", 106_751_991 * 86_400_000),
        ("- 1 days 1 day", 0),
        ("\x01interval 2 days\x00\x7f\x1f", 172_800_000),
        ("interval \x1c2\x1ddays\x1e3\x1fhours", 183_600_000),
        ("interval", None),
        ("", None),
        ("interval5 days", None),
        ("intervals 5 days", None),
        ("interval interval 5 days", None),
        ("interval\t5 days", None),
        ("interval 5days", None),
        ("interval '60' day", None),
        ("interval 5 dayss", None),
        ("interval 5 days6 hours", None),
        ("interval 5 6 days", None),
        ("interval --5 days", None),
        ("interval 5 days +", None),
        ("interval 5 days 6", None),
        ("interval . seconds", None),
        ("interval 1.5 days", None),
        ("interval 60. days", None),
        ("interval 1.5 milliseconds", None),
        ("interval 0.0000000001 seconds", None),
        ("interval 5e3 days", None),
        ("interval 5\u00a0days", None),
        ("interval 5 days\u00a0", None),
        ("interval -1 days", None),
        ("interval 2 days -49 hours", None),
        ("interval -1 days 86399999999 microseconds", None),
        ("\x7f2 days", None),
        ("interval \x012 days", None),
        ("interval 1 year", None),
        ("interval 5 nanoseconds", None),
        ("interval 106751992 days", None),
        ("interval 200000000 days", None),
        ("interval 2147483648 days", None),
        ("interval 9223372036855 seconds", None),
        ("interval 9223372036854775808 microseconds", None),
        ("interval 2", None),
        ("interval two days", None),
        ("interval 2 months", None),
        ("interval \u00b2 days", None),
        (f"interval {'9' * 5_000} days", None),
    ],
)
def test_a_length_of_time_is_understood_or_not(text: str, found: int | None) -> None:
    assert interval_ms(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("interval 1 hours 60 days", 3_600_000),
        (" interval 1 hours 60 days", 3_600_000),
        ("\tinterval 1 hours 60 days", 3_600_000),
        ("\n interval  1\thours 60 days", 3_600_000),
        ("INTERVAL 1 hours 1 days", 90_000_000),
        (" INTERVAL 1 hours 1 days", 90_000_000),
        (" 60 days", 5_184_000_000),
        ("", None),
        (" ", None),
        ("60 days", 5_184_000_000),
        ("interval -1 hours 60 days", None),
        ("a while", None),
    ],
)
def test_its_first_unit_is_a_length_of_time_or_none(
    text: str, found: int | None
) -> None:
    assert first_ms(text) == found
