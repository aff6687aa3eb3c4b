"""What `lakelog check` found: counts, problems, and remarks that are none.

A problem is loss, doubling or damage, one sentence each; it makes the exit code 1. A
remark is worth knowing and legal.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """What was verified, by kind, and one sentence per problem and per remark."""

    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def count(self, name: str, number: int = 1) -> None:
        """Add to the count of ``name``."""
        self.counts[name] = self.counts.get(name, 0) + number

    def add(self, other: "Report") -> None:
        """Take over all that another one found."""
        for name, number in other.counts.items():
            self.count(name, number)
        self.problems += other.problems
        self.remarks += other.remarks

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems
