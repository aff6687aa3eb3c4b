"""The figures of a run, in one table."""

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


def size_of(folder: Path) -> int:
    """Bytes of all files below ``folder``."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def percentile(values: list[float], share: float) -> float:
    """The value below which ``share`` of them lie."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


@dataclass
class Figures:
    """What was measured; seconds and bytes."""

    records: int = 0
    bytes_in: int = 0
    produce_s: float = 0.0
    group_s: float = 0.0
    cold_s: float = 0.0
    ready_s: float = 0.0
    compactor_s: float = 0.0
    table_bytes: int = 0
    freshness_s: list[float] = field(default_factory=list)

    def print(self, console: Console) -> None:
        table = Table(title="Figures", title_justify="left")
        table.add_column("measure")
        table.add_column("value", justify="right")
        for name, value in self._rows():
            table.add_row(name, value)
        console.print(table)

    def _rows(self) -> list[tuple[str, str]]:
        share = self.table_bytes / self.bytes_in
        return [
            ("broker ready after", f"{self.ready_s:.1f} s"),
            ("compactor ready after", f"{self.compactor_s:.1f} s"),
            ("in", self._rate(self.produce_s)),
            ("out, to a group, while they arrive", self._rate(self.group_s)),
            ("out, from the Parquet files", self._rate(self.cold_s)),
            ("acknowledged -> queryable, p50", self._fresh(0.5)),
            ("acknowledged -> queryable, max", self._fresh(1.0)),
            ("keys and values produced", f"{self.bytes_in / 1e6:.1f} MB"),
            ("on disk", f"{self.table_bytes / 1e6:.1f} MB ({share:.2f} x)"),
        ]

    def _rate(self, seconds: float) -> str:
        per_s = self.records / seconds
        return f"{per_s:,.0f} records/s, {self.bytes_in / seconds / 1e6:.0f} MB/s"

    def _fresh(self, share: float) -> str:
        return f"{percentile(self.freshness_s, share):.1f} s"


def freshness(
    acknowledged_at: dict[tuple[int, int], float],
    seen: list[tuple[float, dict[int, int]]],
) -> list[float]:
    """Seconds from acknowledgement until the table held the record.

    ``seen`` is (time, partition -> first offset not in the table), in time order.
    """
    found = []
    for (partition, offset), at in acknowledged_at.items():
        when = next(t for t, ends in seen if ends.get(partition, 0) > offset)
        found.append(max(0.0, when - at))
    return found
