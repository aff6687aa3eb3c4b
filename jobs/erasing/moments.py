"""The time of a run in an expression of Spark's SQL. Pure.

The problem: an erasure looks several times, and is done when a look finds nothing;
``timestamp < current_timestamp() - INTERVAL 30 DAYS`` is true of more rows each time.
The idea: what names the time of asking is one constant for all of a run, put into the
text before Spark reads it: Spark takes the time anew for each statement.

The price: names that Spark has for it and that are not known here stay, and are refused
by who finds them (`jobs.erasing.expression`).
"""

from typing import Final

from jobs.erasing.literals import TOKEN

_BARE: Final = frozenset({"current_date", "current_timestamp", "localtimestamp"})
"""What names it without brackets, too, where there is no column of that name."""
_MICROS: Final = "timestamp_micros({})"
_FORMS: Final = {
    "curdate": f"CAST({_MICROS} AS DATE)",
    "current_date": f"CAST({_MICROS} AS DATE)",
    "current_timestamp": _MICROS,
    "localtimestamp": f"CAST({_MICROS} AS TIMESTAMP_NTZ)",
    "now": _MICROS,
    "unix_timestamp": f"unix_timestamp({_MICROS})",
}


def at_moment(expression: str, now_us: int, columns: frozenset[str]) -> str:
    """The expression as it is at this time. ``columns``: what names of these mean, in
    small letters."""
    tokens = [one for one in TOKEN.finditer(expression) if one.lastgroup != "skip"]
    texts = [one[0].lower() for one in tokens]
    parts, done = list[str](), 0
    for at, text in enumerate(texts):
        is_called = texts[at + 1 : at + 3] == ["(", ")"]
        is_bare = text in _BARE and text not in columns and texts[at + 1 :][:1] != ["("]
        is_field = at > 0 and texts[at - 1] in {".", ":"}
        if text in _FORMS and (is_called or is_bare) and not is_field:
            parts.append(expression[done : tokens[at].start()])
            parts.append(_FORMS[text].format(now_us))
            done = tokens[at + 2 * is_called].end()
    return "".join([*parts, expression[done:]])
