"""Writes the guide's tables of settings from the settings themselves."""

import sys
from pathlib import Path
from typing import Any

from broker.configuration.kafka_names import TAKEN
from broker.settings import schema
from broker.topics.configs import TOPIC_CONFIGS

PAGE = Path(__file__).parent / "docs" / "configure.md"
_UNITS = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def settings_table() -> str:
    """A Markdown row for each setting, in the order in which they are listed."""
    rows = ["| setting | default | Kafka's name | what it is |", "|---|--:|---|---|"]
    for row in schema():
        names = [name for name, key in TAKEN.items() if key == row["key"]]
        cells = [
            f"`{row['key']}`",
            _value(row["key"], row["default"]),
            ", ".join(f"`{name}`" for name in names),
            row["description"],
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def topics_table() -> str:
    """A row for each configuration of a topic that has an effect."""
    rows = ["| configuration | default | what it is |", "|---|--:|---|"]
    rows += [
        f"| `{key.name}` | {key.default} | {key.documentation} |"
        for key in TOPIC_CONFIGS.values()
        if key.effective
    ]
    return "\n".join(rows)


def _value(key: str, value: Any) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if "bytes" in key and isinstance(value, int):
        for unit, size in _UNITS:
            if value and value % size == 0:
                return f"{value // size}{unit}"
    return str(value)


TABLES = {"settings": settings_table, "topics": topics_table}


def with_tables(text: str) -> str:
    """``text`` with what stands between each pair of marks replaced."""
    for name, table in TABLES.items():
        begin = f"<!-- {name}: begin (written by infra/settings_table.py) -->"
        end = f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n\n{table()}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    new = with_tables(PAGE.read_text())
    if "--check" in sys.argv:
        sys.exit(new != PAGE.read_text())
    PAGE.write_text(new)
