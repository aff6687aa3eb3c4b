"""The table of owners' acts in ``lakehouse/README.md``, as tests read it."""

import re
from pathlib import Path
from typing import Final, NamedTuple

README: Final = Path(__file__).parents[2] / "lakehouse" / "README.md"
LAST_OF_ALL: Final = 19
"""What the table calls the last record that stood in the table."""


class Row(NamedTuple):
    """What the table says of an act."""

    act: str
    consumers: str
    compaction: str
    told: str


def rows() -> list[Row]:
    """All of them, in their order."""
    text = README.read_text().partition("<!-- acts: begin -->")[2]
    lines = text.partition("<!-- acts: end -->")[0].strip().splitlines()[2:]
    return [
        Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines
    ]


ROWS: Final = rows()


def changed(said: str, end: int) -> dict[int, bytes | None]:
    """Offset -> what consumers get there now, None: nothing; of a table that ended at
    ``end``, in the words of the table of acts."""
    match = re.fullmatch(r"the same|(a gap|the new value) at (\d+)(?:-(\d+))?", said)
    assert match, said
    if not match[1]:
        return {}
    low = int(match[2])
    last = int(match[3] or low)
    stop = end if last == LAST_OF_ALL else last + 1
    return dict.fromkeys(range(low, stop), None if match[1] == "a gap" else b"new")


def is_as_said(said: str, told: list[str]) -> bool:
    """Whether what is told is what the table says."""
    return any(said.strip("`") in one for one in told) if said else not told
