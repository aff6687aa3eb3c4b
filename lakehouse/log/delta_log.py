"""The Delta log of one table: its state now, and what comes after.

The problem: the broker must know, for thousands of tables and within a quarter of a
second of each commit, which files hold which offsets. The idea: load the newest
checkpoint and the JSON entries after it once, then try to open the next entry; a file
that is not there costs some microseconds. No JVM, no library, no lock: the log is a
sequence of files that never change once they are there.

The price: what this cannot read it has to notice. A higher reader version and mapped
columns are told in ``Snapshot.unreadable``; torn last entries (a power cut: nobody
syncs them but us) stop the snapshot just before them and are told in ``Snapshot.torn``;
a hole in the middle raises LogDamaged.

Source: the Delta transaction log protocol, "Delta Table Specification".
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakehouse.ends import LOOKED_BACK, counted, ends_of, looked_back, uncounted
from lakehouse.errors import LogDamaged, TableMissing
from lakehouse.index import OffsetIndex
from lakehouse.intervals import FOR_EVER_MS, first_ms, interval_ms
from lakehouse.location import Names
from lakehouse.log.actions import (
    Commit,
    DataFile,
    Metadata,
    Protocol,
    parse_commit,
)
from lakehouse.log.checkpoint import (
    HINT,
    complete_checkpoints,
    hinted_version,
    read_checkpoint,
)
from lakehouse.log.checksums import Checksum, noted, written_anew
from lakehouse.log.readable import why_odd, why_unreadable
from lakehouse.log.torn import are_torn
from lakehouse.properties import DELTA, TOPIC_ID
from lakehouse.regular import open_entry

LOG_DIRECTORY = "_delta_log"
_ENTRY = re.compile(r"(\d{20})\.json")
_LOAD_ATTEMPTS = 3
_DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"

Mark = tuple[int, int, int]
"""Which file it is, when it was written (ns), how long it is: another entry of the same
version has another one."""


@dataclass(slots=True)
class Snapshot:
    """The state of a table at a version; ``apply`` moves it on. One thread at a time.

    ``mark`` is that of the last entry that was read, or that led to the checkpoint that
    was; None if that is not there any more.
    ``removed`` holds the files that left and when (ms), for whoever deletes them and
    then forgets them; of a snapshot that ``keeps_removed`` only.
    ``transactions`` are those that count, see `lakehouse.ends`; ``claims`` the newest
    of those that do not.
    ``miscounted``: one sentence, if an entry names other files than it counts rows of.
    ``damaged``: files of checkpoints that could not be read when it was loaded, and of
    a hint to one that is not there, or that cannot be read; what lies below them
    told the state. ``checkpoint`` is the version of the one that it was loaded from.
    """

    path: str
    version: int = -1
    files: dict[str, DataFile] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    claims: dict[str, int] = field(default_factory=dict)
    protocol: Protocol = field(default_factory=Protocol)
    metadata: Metadata | None = None
    torn: str | None = None
    miscounted: str | None = None
    damaged: tuple[str, ...] = ()
    mark: "Mark | None" = None
    keeps_removed: bool = True
    checkpoint: int = -1
    _index: OffsetIndex | None = field(default=None, repr=False, compare=False)

    @property
    def topic_id(self) -> str | None:
        """The id of the topic whose table this says it is, 32 hex digits."""
        return None if self.metadata is None else self.configuration.get(TOPIC_ID)

    @property
    def configuration(self) -> dict[str, str]:
        return {} if self.metadata is None else dict(self.metadata.configuration)

    @property
    def deleted_file_retention_ms(self) -> int:
        """For how long the log tells which files left, at the least: checkpoints drop
        what left before, and those of a library that does not know its owner's words
        for a time drop it after a week, or after the first of several units. 0 where
        nobody can understand them.
        """
        ours = DELTA[_DELETED_FILE_RETENTION]
        said = self.configuration.get(_DELETED_FILE_RETENTION, ours)
        known = interval_ms(said), first_ms(said), interval_ms(ours)
        return min(ms or 0 for ms in known)

    @property
    def time_travel_ms(self) -> int:
        """For how long files that left stay for older versions: as its owner says, and
        for ever where that cannot be understood.
        """
        ours = DELTA[_DELETED_FILE_RETENTION]
        said = interval_ms(self.configuration.get(_DELETED_FILE_RETENTION, ours))
        return FOR_EVER_MS if said is None else said

    @property
    def unclear(self) -> str | None:
        """One sentence if nobody can say for how long files that left stay."""
        if self.time_travel_ms < FOR_EVER_MS:
            return None
        said = self.configuration[_DELETED_FILE_RETENTION]
        return (
            "nothing that left it is deleted for its age: its "
            f"{_DELETED_FILE_RETENTION} is {said!r}, which Delta does not take for a "
            "length of time"
        )

    @property
    def unreadable(self) -> str | None:
        """One sentence if the rows cannot be read right, else None."""
        return why_unreadable(self.protocol, self.metadata) or why_odd(self.index)

    @property
    def left(self) -> dict[str, int]:
        """Path below the table's directory -> when the file left, by whatever name it
        did last."""
        found, names = dict[str, int](), Names(self.path)
        for named, when in self.removed.items():
            path = names.below(named)
            found[path] = max(when, found.get(path, when))
        return found

    @property
    def index(self) -> OffsetIndex:
        """Which files hold which offsets; made at the first look, and kept."""
        if self._index is None:
            self._index = OffsetIndex.of(self)
        return self._index

    def reaches(self, partition: int, offset: int) -> bool:
        """Whether a file of a partition may have a row at an offset or beyond."""
        return self.index.files_of(partition).last_offset >= offset

    def apply(self, commit: Commit) -> None:
        """Move on by one entry."""
        self.version = commit.version
        names = Names(self.path)
        come = {file.path: file.of_table(names) for file in commit.adds}
        paths = commit.removes.keys() | come.keys()
        gone = [self.files.pop(path) for path in paths if path in self.files]
        if self.keeps_removed:
            self.removed |= commit.removes
        for path in come:
            self.removed.pop(path, None)
        self.files |= come
        if self._index is not None:
            self._index = self._index.changed(self.version, gone, come.values())
        self._take_ends(commit)
        self._take_count(commit)
        self.protocol = commit.protocol or self.protocol
        self.metadata = commit.metadata or self.metadata

    def _take_count(self, commit: Commit) -> None:
        partition = None if commit.is_state else commit.miscounted
        if partition is not None and self.miscounted is None:
            self.miscounted = (
                f"log entry {commit.version} is damaged: what it says of the files of "
                f"partition {partition} is not what it counts, and rows of it may be "
                "passed over"
            )

    def _take_ends(self, commit: Commit) -> None:
        proven = counted(commit, self.transactions)
        if len(proven) < len(commit.transactions):
            self.claims |= uncounted(commit, proven, self.transactions)
        self.transactions.update(proven)
        for application in self.claims.keys() & proven.keys():
            del self.claims[application]


def table_ends(snapshot: Snapshot, topic_id: str | None = None) -> dict[int, int]:
    """Partition -> first offset that is not in the table.

    Said by the ``txn`` actions of the compactor, not by the files: an owner's DELETE
    moves no end. Those that count are taken, see `lakehouse.ends`. Without ``topic_id``
    the table's own is.
    """
    return ends_of(snapshot.transactions, topic_id or snapshot.topic_id or "")


def untrue(snapshot: Snapshot, topic_id: str) -> str | None:
    """One sentence if its log says what is not so."""
    return unproven_ends(snapshot, topic_id) or snapshot.miscounted


def unproven_ends(snapshot: Snapshot, topic_id: str) -> str | None:
    """One sentence if its newest commits say ends that nothing proves."""
    claims, ends = ends_of(snapshot.claims, topic_id), table_ends(snapshot, topic_id)
    for partition, claim in sorted(claims.items()):
        end = ends.get(partition, 0)
        return (
            "a commit that is not the compactor's says that partition "
            f"{partition} ends at offset {claim}; it is taken to end at {end}"
        )
    return None


def entry_path(path: str, version: int) -> str:
    """The file of a log entry."""
    return os.path.join(path, LOG_DIRECTORY, f"{version:020d}.json")


def read_entry(path: str, version: int) -> bytes:
    """The bytes of a log entry. Raises FileNotFoundError, and LogDamaged where
    something else than a file stands there."""
    with open_entry(entry_path(path, version)) as file:
        return file.read()


def read_marked(path: str, version: int) -> tuple[bytes, Mark]:
    """The same, and the mark of what was read. Raises as `read_entry`."""
    with open_entry(entry_path(path, version)) as file:
        return file.read(), _mark_of(os.fstat(file.fileno()))


def is_gone(path: str, version: int, mark: Mark | None) -> bool:
    """Whether the entry that was read with this mark is not there any more: its owner
    removed it, or put another one in its place. Without a mark nobody can tell."""
    return mark is not None and _mark_at(entry_path(path, version)) != mark


def _mark_at(entry: str) -> Mark | None:
    try:
        return _mark_of(os.stat(entry))
    except FileNotFoundError:
        return None


def _mark_of(status: os.stat_result) -> Mark:
    return status.st_ino, status.st_mtime_ns, status.st_size


def exists(path: str) -> bool:
    """Whether there is a table: at least one entry of a log."""
    return bool(_log_names(path))


def entry_versions(path: str) -> list[int]:
    """The versions whose entries are there, in order."""
    return sorted(_entry_versions(_log_names(path)))


def oldest_version(path: str) -> int | None:
    """The oldest version whose state the log still tells; None: it tells none."""
    names = _log_names(path)
    if 0 in _entry_versions(names):
        return 0
    return min((version for version, _ in complete_checkpoints(names)), default=None)


def stamp(path: str) -> int:
    """A number that changes when an entry of the log comes or goes; 0: there is none,
    or none that can be looked at.

    Cheaper than the log itself, whatever state that is in.
    """
    try:
        return os.stat(os.path.join(path, LOG_DIRECTORY)).st_mtime_ns
    except OSError:
        return 0


def load(path: str, *, keep_removed: bool = True) -> Snapshot:
    """The newest state of the table at ``path``; blocks.

    ``keep_removed``: for who deletes files. A table that is followed for months sheds
    as many files as it gets.

    Raises TableMissing when there is none and LogDamaged when the log has a hole.
    """
    for _ in range(_LOAD_ATTEMPTS):
        try:
            return _load(path, keep_removed)
        except FileNotFoundError:
            continue  # cleaned away between listing and reading: list again
    raise LogDamaged(f"{path}: log entries vanish while they are read")


def load_version(path: str, version: int, *, without: int | None = None) -> Snapshot:
    """The state of the table at a version that is past; blocks.

    ``without`` the checkpoint of that version. Raises TableMissing where the log does
    not reach back so far, or not yet so far, and LogDamaged when an entry on the way
    cannot be read.
    """
    newest = f"{version:020d}"
    names = [name for name in _log_names(path) if name[:20] <= newest]
    found = [one for one in complete_checkpoints(names) if one[0] != without]
    checksums = noted(os.path.join(path, LOG_DIRECTORY))
    snapshot = _from_checkpoint(path, found, checksums, keep_removed=False)
    _advance(snapshot, version)
    return snapshot


def read_version(
    path: str,
    version: int,
    names: list[str],
    checksums: Mapping[str, Checksum],
    *,
    keep_removed: bool = False,
) -> Snapshot:
    """The same, as one checkpoint and the entries after it tell it. Raises ValueError
    where its files, ``names``, tell none."""
    snapshot = Snapshot(path, keeps_removed=keep_removed)
    _begin_at(snapshot, int(names[0][:20]), names, checksums)
    _advance(snapshot, version)
    return snapshot


def checkpoints(path: str) -> dict[int, list[str]]:
    """Version -> files of the checkpoints that are there, the newest first."""
    return dict(complete_checkpoints(_log_names(path)))


def _advance(snapshot: Snapshot, version: int) -> None:
    """Apply the entries up to a version."""
    path = snapshot.path
    while snapshot.version < version:
        following = snapshot.version + 1
        try:
            commit = _parse(snapshot, following, read_entry(path, following))
        except FileNotFoundError:
            raise TableMissing(f"{path}: its log has no version {version}") from None
        if commit is None:
            raise LogDamaged(f"{path}: {snapshot.torn}")
        snapshot.apply(commit)


def follow(snapshot: Snapshot) -> list[Commit]:
    """Apply the entries that came after the snapshot; they are returned in order.

    Nothing new costs one attempt to open a file. Raises LogDamaged when the next entry
    cannot be understood, or is torn although a whole one follows it, or it is the first
    and any does; the snapshot then stands before it.
    """
    commits: list[Commit] = []
    while True:
        version = snapshot.version + 1
        try:
            text, mark = read_marked(snapshot.path, version)
        except FileNotFoundError:
            snapshot.torn = None
            return commits
        commit = _parse(snapshot, version, text)
        if commit is None:
            return commits
        snapshot.apply(commit)
        snapshot.mark = mark
        commits.append(commit)


def _parse(snapshot: Snapshot, version: int, text: bytes) -> Commit | None:
    try:
        commit = parse_commit(version, text)
    except ValueError as error:
        sentence = f"{entry_path(snapshot.path, version)} is torn: {error}"
        behind = [v for v in entry_versions(snapshot.path) if v > version]
        torn = are_torn(entry_path(snapshot.path, later) for later in behind)
        if behind and not (version and torn):
            raise LogDamaged(sentence) from error
        snapshot.torn = sentence
        return None
    snapshot.torn = None
    return commit


def _load(path: str, keep_removed: bool) -> Snapshot:
    names = _log_names(path)
    if not names:
        raise TableMissing(f"{path} holds no Delta table")
    directory = os.path.join(path, LOG_DIRECTORY)
    known = noted(directory)
    try:
        return _load_from(path, names, known, keep_removed)
    except LogDamaged:  # a checkpoint that somebody wrote anew may be all that tells it
        same = {
            name: checksum
            for name, checksum in known.items()
            if not written_anew(os.path.join(directory, name), checksum)
        }
        if same == known:
            raise
    return _load_from(path, names, same, keep_removed)


def _load_from(
    path: str, names: list[str], known: Mapping[str, Checksum], keep_removed: bool
) -> Snapshot:
    snapshot = _from_checkpoint(path, complete_checkpoints(names), known, keep_removed)
    follow(snapshot)
    newest = max(_entry_versions(names), default=-1)
    if snapshot.version < newest and snapshot.torn is None:
        wanted = entry_path(path, snapshot.version + 1)
        if os.path.exists(wanted):
            raise FileNotFoundError(wanted)
        passed = "".join(f"; {name} is damaged" for name in snapshot.damaged)
        raise LogDamaged(f"{wanted} is missing, {newest} is there{passed}")
    if snapshot.version < 0:
        raise TableMissing(f"{path} holds no whole log entry: {snapshot.torn}")
    if _misleads(path, names):
        snapshot.damaged += (HINT,)
    return snapshot


def _misleads(path: str, names: list[str]) -> bool:
    """Whether the hint cannot be read, or names a checkpoint that is not there."""
    version = hinted_version(os.path.join(path, LOG_DIRECTORY))
    if version is None or version in dict(complete_checkpoints(names)):
        return False
    now = complete_checkpoints(_log_names(path))  # it may be newer than the first look
    return version not in dict(now)


def _from_checkpoint(
    path: str,
    found: list[tuple[int, list[str]]],
    checksums: Mapping[str, Checksum],
    keep_removed: bool,
) -> Snapshot:
    """The state at the newest checkpoint that can be read, or before version 0.

    A damaged checkpoint is passed over as long as the entries below it are there.
    """
    snapshot = Snapshot(path, keeps_removed=keep_removed)
    damage: ValueError | None = None
    for version, names in found:
        try:
            _begin_at(snapshot, version, names, checksums)
        except ValueError as error:
            damage = error
            snapshot.damaged += tuple(names)
            continue
        return snapshot
    if damage is not None and not os.path.exists(entry_path(path, 0)):
        raise LogDamaged(str(damage)) from damage
    return snapshot


def _begin_at(
    snapshot: Snapshot,
    version: int,
    names: list[str],
    checksums: Mapping[str, Checksum],
) -> None:
    """Take the state from a checkpoint. Raises ValueError and FileNotFoundError."""
    directory = os.path.join(snapshot.path, LOG_DIRECTORY)
    snapshot.apply(read_checkpoint(directory, version, names, checksums))
    snapshot.checkpoint = version
    snapshot.mark = _mark_at(entry_path(snapshot.path, version))
    snapshot.transactions, snapshot.claims = looked_back(
        snapshot.transactions, snapshot.files.values(), entries_before(snapshot)
    )


def entries_before(snapshot: Snapshot) -> Iterator[Commit]:
    """The entries that led to a state, the newest first, as far as they are there
    and whole, and not too many."""
    version = snapshot.version
    for earlier in range(version, max(-1, version - LOOKED_BACK), -1):
        try:
            yield parse_commit(earlier, read_entry(snapshot.path, earlier))
        except (OSError, ValueError, LogDamaged):
            return


def _entry_versions(names: Iterable[str]) -> list[int]:
    matches = (_ENTRY.fullmatch(name) for name in names)
    return [int(match[1]) for match in matches if match is not None]


def _log_names(path: str) -> list[str]:
    """Names of entries and checkpoints in the log directory."""
    try:
        names = os.listdir(os.path.join(path, LOG_DIRECTORY))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [name for name in names if name[:20].isdigit()]
