"""The judge of transactions: each is committed, or is not, and everybody sees the same.

What says that one is committed: the answer to its EndTxn; a record of it that a reader
of committed records got; an offset of it that a group has. What says that it is not:
such an answer; a record of it that is at an offset which such a reader passed, or that
its table does not have. Two of these that differ, or a sign of a commit for which
nobody asked, cannot be.

An instance of a producer that got an epoch has fenced all that had one before: nothing
that these ask for afterwards may succeed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


class Violation(AssertionError):
    """The broker broke a promise."""


Offered = tuple[Callable[[int], None], int]
"""Who is to hear that an offset of a group is committed, and the offset."""


@dataclass
class TransactionModel:
    """One transaction of one instance of a producer."""

    name: str
    commit_asked: bool = False
    is_committed: bool | None = None
    """None: nobody knows yet."""
    why: str = ""
    offsets: list[Offered] = field(default_factory=list)
    """Those that the broker took."""

    def committed(self, how: str) -> None:
        """Something says that it is committed."""
        if not self.commit_asked:
            raise Violation(f"{self.name} counts, nobody asked to commit it ({how})")
        self._decide(True, how)

    def aborted(self, how: str) -> None:
        """Something says that it is not."""
        self._decide(False, how)

    def _decide(self, is_committed: bool, how: str) -> None:
        if self.is_committed is None:
            self.is_committed, self.why = is_committed, how
        elif self.is_committed is not is_committed:
            was = "committed" if self.is_committed else "aborted"
            raise Violation(f"{self.name} was {was} ({self.why}), and is not ({how})")

    def acknowledge_offsets(self) -> None:
        """Its end was acknowledged, or nobody is under way any more: its offsets are
        there if it is committed."""
        if self.is_committed:
            for acknowledge, offset in self.offsets:
                acknowledge(offset)


@dataclass
class TransactionalIds:
    """Who has which epoch of which transactional id."""

    newest: dict[str, tuple[int, int]] = field(default_factory=dict)
    owner: dict[tuple[int, int], str] = field(default_factory=dict)

    def given(self, transactional_id: str, producer: tuple[int, int], to: str) -> None:
        """An instance was told its producer id and epoch."""
        other = self.owner.setdefault(producer, to)
        if other != to:
            raise Violation(
                f"{producer} of {transactional_id}: {other} has it, and {to}"
            )
        newest = self.newest.get(transactional_id, (-1, -1))
        self.newest[transactional_id] = max(newest, producer)

    def check(
        self, newest: tuple[int, int], producer: tuple[int, int], how: str
    ) -> None:
        """An instance succeeded; ``newest``: of its id when its request left."""
        if producer < newest:
            raise Violation(f"{how} of {producer} succeeds, {newest} has fenced it")
