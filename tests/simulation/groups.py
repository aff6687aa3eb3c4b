"""The judge of groups: who was told its part of a generation has fenced those before.

A generation counts from the first SyncGroup that is answered: it is durable then. What
members of an older one ask for afterwards must be refused, and within a generation each
partition has one owner.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.transactions import Violation


@dataclass
class GroupModel:
    """What is known of the generations of one group."""

    name: str
    newest: int = 0
    owners: dict[tuple[int, str], str] = field(default_factory=dict)
    """(generation, partition) -> the member that was given it."""

    def synced(self, generation: int, partitions: Iterable[str], member: str) -> None:
        """A member was told its part of a generation."""
        for partition in partitions:
            owner = self.owners.setdefault((generation, partition), member)
            if owner != member:
                raise Violation(
                    f"{partition} of {self.name} in generation {generation}: "
                    f"{owner} has it, and {member}"
                )
        self.newest = max(self.newest, generation)

    def check(self, newest: int, generation: int, how: str) -> None:
        """A member of a generation succeeded; ``newest``: the one that was known when
        its request left."""
        if generation < newest:
            raise Violation(
                f"{how} in generation {generation} of {self.name} succeeds, "
                f"{newest} has fenced it"
            )
