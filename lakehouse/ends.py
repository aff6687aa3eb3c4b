"""Where the partitions of a topic's table end: what its commits prove.

The problem: the end of a partition is the version of a ``txn`` action, since files
cannot tell it: an owner may delete the last rows. Anybody who writes to the table may
write such an action, too, by chance or by a copied log entry; what is above an end that
was believed would be released from the log, and offsets given to records would jump.
The idea: a ``txn`` counts only beside the range that it ends (`lakehouse.properties.
RANGES`), and only if that range begins where the partition ended before, as each range
of the compactor's does. One that does not count is told.

A checkpoint has no ranges. There the last row of a file proves an end, or the entry
that the checkpoint has it from, if the log still has that among the `LOOKED_BACK`.

The price: an end that a checkpoint has from an older entry is believed; where an owner
deleted the last rows, or they expired, a load reads so many entries more. Pure.

Source: the Delta transaction log protocol, "Transaction Identifiers".
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lakehouse.log.actions import Commit, DataFile

LOOKED_BACK: Final = 500
"""So many entries up to a checkpoint are asked for what its files do not prove."""
_ID_DIGITS: Final = frozenset("0123456789abcdef")
_ID_LENGTH: Final = 32


def ends_of(transactions: Mapping[str, int], topic_id: str) -> dict[int, int]:
    """Partition -> end, as the ``txn`` actions of this topic say."""
    found = {}
    for application, version in transactions.items():
        whose, partition = _parts(application)
        if whose == topic_id and partition is not None:
            found[partition] = version
    return found


def counted(commit: Commit, known: Mapping[str, int]) -> dict[str, int]:
    """The ``txn`` actions of a commit that count; ``known`` are those before it."""
    if commit.is_state:
        return commit.transactions
    ranges = commit.ranges
    found = {}
    for application, version in commit.transactions.items():
        whose, partition = _parts(application)
        if whose is None:
            found[application] = version
        elif partition is None:
            if ranges and version >= known.get(application, version):
                found[application] = version
        elif _ends_at(ranges.get(partition), version, known.get(application)):
            found[application] = version
    return found


def uncounted(
    commit: Commit, proven: Mapping[str, int], known: Mapping[str, int]
) -> dict[str, int]:
    """The ends that a commit says, beside those ``proven``, and that are news."""
    return {
        application: version
        for application, version in commit.transactions.items()
        if application not in proven
        and version != known.get(application)
        and _parts(application)[1] is not None
    }


def looked_back(
    state: Mapping[str, int], files: Iterable[DataFile], commits: Iterator[Commit]
) -> tuple[dict[str, int], dict[str, int]]:
    """Of a checkpoint's ``txn`` actions those that count, and the claims that do not.

    ``commits`` are those before it, the newest first, taken while they are needed; one
    that follows nothing in the log is passed over. Where a claim stands and none of
    them says what holds, the rows do.
    """
    reached = _reached(files)
    found, claims = dict(state), dict[str, int]()
    wanted = {name for name in state if _is_open(name, state[name], reached)}
    while wanted and (commit := next(commits, None)) is not None:
        if _is_stray(commit, state):
            continue
        proven = counted(commit, {})
        for name in wanted & commit.transactions.keys():
            if name in proven:
                found[name] = proven[name]
                wanted.remove(name)
            else:
                claims.setdefault(name, commit.transactions[name])
    for name in wanted & claims.keys():
        del found[name]
        rows_end = max(reached.get(_parts(name)[1], {0}))
        if rows_end > 0:
            found[name] = rows_end
    return found, claims


def _is_stray(commit: Commit, state: Mapping[str, int]) -> bool:
    """Whether a commit is of a round that the checkpoint above it has not seen: who put
    it was killed before it was taken back (`lakehouse.log.next_entry`)."""
    return bool(commit.ranges) and any(
        number > state.get(application, number)
        for application, number in commit.transactions.items()
        if _is_of_rounds(*_parts(application))
    )


def _is_of_rounds(whose: str | None, partition: int | None) -> bool:
    return whose is not None and partition is None


def _reached(files: Iterable[DataFile]) -> dict[int | None, set[int]]:
    """Partition -> the offsets behind the last rows of its files."""
    found: dict[int | None, set[int]] = {}
    for file in files:
        if file.is_bounded:
            found.setdefault(file.partition, set()).add(file.last_offset + 1)
    return found


def _is_open(name: str, end: int, reached: Mapping[int | None, set[int]]) -> bool:
    """Whether this is said of a topic's table, and no file's last row proves it."""
    whose, partition = _parts(name)
    return whose is not None and end not in reached.get(partition, ())


def _ends_at(span: tuple[int, int] | None, version: int, known: int | None) -> bool:
    """Whether a range proves that a partition ends at ``version`` now."""
    if span is None or span[1] != version or span[0] >= version:
        return False
    return known is None or known == span[0]


def _parts(application: str) -> tuple[str | None, int | None]:
    """Topic id and partition of an application id; (None, None) if it is not ours; no
    partition for that of the rounds."""
    whose, slash, partition = application.partition("/")
    if len(whose) != _ID_LENGTH or not _ID_DIGITS.issuperset(whose):
        return None, None
    if not slash:
        return whose, None
    if not (partition.isascii() and partition.isdigit()):
        return None, None
    return whose, int(partition)
