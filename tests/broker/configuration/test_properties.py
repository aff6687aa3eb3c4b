"""Java's properties; each expectation is what ``java.util.Properties`` reads."""

import pytest

from broker.configuration.properties import decode, parse


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb:2\nc 3\nd\t=\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# one\n  ! two\n\n \t\na=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=v", {"": "v"}),
        ("a==b", {"a": "=b"}),
        ("a = b = c", {"a": "b = c"}),
        ("  a=1", {"a": "1"}),
        ("a=1  ", {"a": "1  "}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one,\\\n    two", {"a": "one,two"}),
        ("a=1\\\n# no comment", {"a": "1# no comment"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("# no \\\na=1", {"a": "1"}),
        (r"a\=b=1", {"a=b": "1"}),
        (r"a\ b\:c=1", {"a b:c": "1"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=\u0041\u00e9", {"a": "Aé"}),
        ("a\\\n  b=1", {"ab": "1"}),
        ("", {}),
    ],
)
def test_it_is_read_as_java_reads_it(text: str, found: dict[str, str]) -> None:
    assert parse(text) == found


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\uzzzz", r"\u=1"])
def test_an_escape_that_is_cut_off_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="four hexadecimal digits"):
        parse(text)


def test_the_text_is_utf_8_or_else_latin_1() -> None:
    assert decode("é".encode()) == "é"
    assert decode("é".encode("latin-1")) == "é"
