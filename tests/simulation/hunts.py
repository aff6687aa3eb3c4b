"""Where each planted defect is looked for: clients, faults, and seeds that suffice."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.simulation import sabotage
from tests.simulation.story import Outcome, play


@dataclass
class Hunt:
    """Where a defect is looked for."""

    defect: Callable[[], AbstractContextManager[None]]
    clients: tuple[str, ...]
    faults: tuple[str, ...]
    seconds: float
    seeds: range

    def play(self, seed: int) -> Outcome:
        return play(
            seed, clients=self.clients, faults=self.faults, seconds=self.seconds
        )


HUNTS = {
    "receive memory used again": Hunt(
        sabotage.reused_receive_memory,
        ("plain", "plain", "plain", "vandal", "vandal"), ("slow",) * 3, 2, range(20),
    ),
    "a topic that is not deleted loses its records": Hunt(
        sabotage.deletion_before_its_commit,
        ("admin", "admin"), ("locked",) * 4, 3, range(30),
    ),
    "a refused write comes back": Hunt(
        sabotage.trust_in_the_page_cache,
        ("plain", "plain"), ("failing_sync", "failing_write") * 2, 4, range(20),
    ),
    "a retry is taken for a duplicate": Hunt(
        sabotage.checkpoints_of_what_is_in_flight,
        ("idempotent", "idempotent", "plain"), ("full",) * 4, 4, range(9, 60),
    ),
    "a producer is forgotten": Hunt(
        sabotage.checkpoints_of_what_is_in_flight,
        ("idempotent", "idempotent", "impatient", "impatient"),
        ("ambush_seal",) * 8, 3, range(80, 109),
    ),
    "requests overtake each other": Hunt(
        sabotage.requests_that_overtake,
        ("impatient", "committer", "admin"), (), 2, range(4),
    ),
    "a marker comes before its data": Hunt(
        sabotage.markers_before_their_data,
        ("transactions",), (), 2, range(8, 20),
    ),
    "the first record of what is open is stable": Hunt(
        sabotage.the_first_open_record_is_stable,
        ("transactions",), (), 2, range(8),
    ),
    "nobody is fenced": Hunt(
        sabotage.nobody_is_fenced,
        ("transactions",), (), 2, range(8),
    ),
    "an answered transaction has lost its markers": Hunt(
        sabotage.transactions_over_before_their_sync,
        ("relaxed",), ("power",) * 3, 3, range(1, 12),
    ),
    "what was not synced is called damaged": Hunt(
        sabotage.what_was_written_counts_as_synced,
        ("relaxed",), ("power",) * 3, 3, range(16, 30),
    ),
    "pending offsets are lost": Hunt(
        sabotage.pending_offsets_that_a_start_forgets,
        ("transactions", "transactions"), ("kill",) * 4, 3, range(3, 11),
    ),
    "sequences are not checked": Hunt(
        sabotage.sequences_unchecked,
        ("idempotent", "idempotent"), ("cuts",) * 4, 2, range(6),
    ),
    "a gap in the sequence is not noticed": Hunt(
        sabotage.gaps_unchecked,
        ("idempotent",) * 3, ("full",) * 6 + ("slow_network",) * 3, 4, range(5, 20),
    ),
    "a duplicate is answered as an error": Hunt(
        sabotage.duplicates_refused,
        ("idempotent", "idempotent"), ("cuts",) * 4, 2, range(6),
    ),
    "a stale member commits": Hunt(
        sabotage.stale_members_that_commit,
        ("members",), (), 3, range(1, 12),
    ),
    "a member commits in an older generation": Hunt(
        sabotage.generations_unchecked,
        ("members",), (), 3, range(2, 12),
    ),
    "a commit is acknowledged before it is durable": Hunt(
        sabotage.answers_before_they_are_durable,
        ("members", "members", "committer", "committer"), ("kill",) * 6, 4,
        range(2, 14),
    ),
    "a record is acknowledged before it is durable": Hunt(
        sabotage.records_that_are_not_synced,
        ("plain",), ("power",) * 3, 2, range(6),
    ),
}  # fmt: skip
