"""Writes the README's table of served APIs from the registry itself."""

import sys
from pathlib import Path

BEGIN = "<!-- apis: begin (written by infra/api_table.py) -->"
END = "<!-- apis: end -->"
README = Path(__file__).parents[1] / "README.md"


def table() -> str:
    """A Markdown row for each API, in the order of its key."""
    from broker.dispatch.registry import Registry

    rows = ["| key | API | versions |", "|--:|---|---|"]
    for key, api in Registry.discover().by_key.items():
        name = api.key.name.title().replace("_", "")
        first, last = api.first_version, api.last_version
        versions = str(first) if first == last else f"{first}-{last}"
        rows.append(f"| {key} | {name} | {versions} |")
    return "\n".join(rows)


def with_table(text: str) -> str:
    """``text`` with what stands between the marks replaced."""
    return replaced(text, BEGIN, END, table())


def replaced(text: str, begin: str, end: str, new: str) -> str:
    """``text`` with ``new`` between two marks."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{new}\n\n{end}{after}"


if __name__ == "__main__":
    new = with_table(README.read_text())
    if "--check" in sys.argv:
        sys.exit(new != README.read_text())
    README.write_text(new)
