"""RE2's expressions, from end to end; asked of Apache Kafka 4.3.1 as well."""

import pytest

from broker.apis._patterns import matching
from broker.protocol.errors import ErrorCode, KafkaError

IDS = ["open-1", "Open.2", "done-1", "a\nb", "zürich", ""]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("open-1", ["open-1"]),
        ("op", []),
        ("[oO]pen.*", ["open-1", "Open.2"]),
        ("(?i)OPEN-.*", ["open-1"]),
        ("open-1|done-1", ["open-1", "done-1"]),
        ("^open-1$", ["open-1"]),
        (r"\Qopen-1\E", ["open-1"]),
        (r"\Qopen-1", ["open-1"]),
        (r"open\\*-1", ["open-1"]),
        (r"\Qo\E\Qpen-1", ["open-1"]),
        (r"\p{Lu}.*", ["Open.2"]),
        (".*", ["open-1", "Open.2", "done-1", "zürich", ""]),
        ("(?s).*", IDS),
        ("z.rich", ["zürich"]),
        ("", [""]),
    ],
)
def test_a_text_matches_as_a_whole_or_not(pattern, found):
    matched = matching(pattern, IDS)
    assert [one for one, is_one in zip(IDS, matched, strict=True) if is_one] == found


@pytest.mark.parametrize(
    "pattern", ["(", "a)(b", "(a|b", "a{1001}", "(?=x)", "open-1\\", r"(a)\1"]
)
@pytest.mark.parametrize("ids", [IDS, []])
def test_what_is_no_expression_is_said_to_be_none(pattern, ids):
    with pytest.raises(KafkaError) as refused:
        matching(pattern, ids)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message


def test_a_pattern_that_others_never_finish_is_matched_at_once():
    texts = ["a" * 5_000 + "b"]
    assert matching("(a+)+", texts) == [False]
    assert matching("(a|a)*b", texts) == [True]
