"""What an expression names is taken out of it as Spark reads it."""

import pytest

from jobs.erasing.literals import Literal, literals


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("value = 'anna'", [b"anna"]),
        ('value = "anna" OR value = \'anna\'', [b"anna"]),
        ("key = X'616E6e61'", [b"anna"]),
        ("key = x'f'", [b"\x0f"]),
        ("get_json_object(value, '$.id') = 17", [b"17"]),
        ("x = 17L or y = 1.5e3 or z = .5D", [b"17", b"1.5e3", b".5"]),
        (r"name = 'O\'Brien' or name = 'M\u00fcller'", [b"O'Brien", "Müller".encode()]),
        (r"name = r'a\b' or name = 'tab\there' or name = '\101'", [
            b"a\\b", b"tab\there", b"A"]),
        ("name = '' or name = ' ' or `it''s 17` is null", []),
        ("a17 = b -- 'no'\n /* 18 */ or c", []),
        ("key IS NULL", []),
    ],
)  # fmt: skip
def test_values_are_found(expression: str, values: list[bytes]) -> None:
    assert [one.value for one in literals(expression)] == values


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("value LIKE '%anna%'", [Literal(b"anna", True, True)]),
        ("value NOT LIKE 'anna%x.org'", [
            Literal(b"anna", False, True), Literal(b"x.org", True, False)]),
        (r"value ilike '100\%_'", [Literal(b"100%", False, True)]),
        ("startswith(value, 'anna') or id = 17", [
            Literal(b"anna", True, True), Literal(b"17")]),
        ("key LIKE ANY ('%anna%', 'bo_') or id = 17", [
            Literal(b"anna", True, True), Literal(b"bo", False, True), Literal(b"17")]),
        ("key NOT ILIKE ALL('%anna')", [Literal(b"anna", True, False)]),
        ("key like some (lower('%anna'), 'bo%')", [
            Literal(b"anna", True, False), Literal(b"bo", False, True)]),
        ("value = 'a%b_c'", [Literal(b"a%b_c")]),
        (r"value = 'a\%b'", [Literal(b"a%b")]),
    ],
)  # fmt: skip
def test_of_a_pattern_what_stands_between_its_wildcards(
    expression: str, found: list[Literal]
) -> None:
    assert literals(expression) == found


@pytest.mark.parametrize(
    "place",
    [
        "offset = 17",
        "`offset` >= 17 AND partition <> 0",
        "partition in (1, 2, 3)",
        "partition not in (1)",
        "timestamp > TIMESTAMP '2024-01-01'",
        "timestamp between '2024-01-01' and timestamp '2024-01-02'",
        "timestampType != -1",
        "offset BETWEEN 5 AND 7",
    ],
)
def test_where_a_record_stands_says_nothing_of_anybody(place: str) -> None:
    assert literals(place) == []
    assert literals(f"({place}) AND value = 'anna'") == [Literal(b"anna")]
    assert literals(f"value = 'anna' AND {place}") == [Literal(b"anna")]


@pytest.mark.parametrize("field", ["v.offset", "v:partition", "v.`timestamp`"])
def test_a_field_of_a_value_is_no_place(field: str) -> None:
    assert literals(f"{field} = 'anna'") == [Literal(b"anna")]


@pytest.mark.parametrize(
    "odd", ["'", "\\", "x'", "offset", "offset <", "offset in (", "`"]
)
def test_what_is_no_expression_is_left_to_spark(odd: str) -> None:
    assert literals(odd) == []
