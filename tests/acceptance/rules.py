"""The rules of the protocol that this broker keeps, as `rules.txt` lists them.

A rule is a line ``section.number sentence``. Below it, indented, stand the tests that
hold it, as pytest names them from `tests` on; or ``left out:`` and why no test can:
there is nothing here that the rule speaks of. Sections: 1.3 encoding, 1.4 what came
with newer clients, 1.5 what is listed, 4.1 defects that other brokers had, 4.2
connections, 4.3 SASL, 4.4 metadata and topics, 4.5 Produce, 4.6 Fetch, 4.7
ListOffsets, 4.8 groups, 4.9 transactions, 4.10 the rest.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LIST: Final = Path(__file__).with_name("rules.txt")
LEFT_OUT: Final = "left out: "
_RULE: Final = re.compile(r"(\d+\.\d+\.\d+) (\S.*)")


@dataclass(slots=True)
class Rule:
    """One rule: its number, what it says, who holds it or why nobody does."""

    number: str
    says: str
    tests: list[str] = field(default_factory=list)
    left_out: str = ""


def parse(lines: Iterable[str]) -> Iterator[Rule]:
    """The rules of a list. Raises ValueError for a line that is none."""
    rule = None
    for line in lines:
        if match := _RULE.fullmatch(line):
            if rule is not None:
                yield rule
            rule = Rule(match[1], match[2])
        elif rule is None or not line.startswith("    "):
            raise ValueError(f"no rule and of no rule: {line!r}")
        elif line.strip().startswith(LEFT_OUT):
            rule.left_out = line.strip().removeprefix(LEFT_OUT)
        else:
            rule.tests.append(line.strip())
    if rule is not None:
        yield rule


def rules() -> list[Rule]:
    """All of them, in the order of the list."""
    return list(parse(LIST.read_text().splitlines()))
