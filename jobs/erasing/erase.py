"""``lakelog erase``: what has a key, or fits an expression, is nowhere any more.

The problem: a record stands in the table, in its older versions, in segments, in free
segment files and in memory, and each part is another process's. The idea: an order in
which each step leaves everything whole, and which can be begun anew at any time:

1. everything durable comes into the table (`lakelog compact`);
2. the table is held until 4, however long that takes: the compactor commits nothing to
   it, and has no file of it open;
3. the rows leave the table, and the files that had them their directory (`table`);
4. the broker lets go of every file of the log, and of what it keeps of tables in
   memory (`segments`);
5. what was found is looked for again, and must not be there: with the table held once
   more, when no round or merge is under way that had read the files of before. What
   one that was killed since 2 had begun to write goes; what one that hangs may go on
   to write stays, and nothing is proven;
6. a row in ``lakelog_erasures`` tells (`records`).

Records that come meanwhile are not among those that are erased: ask again.

The price: the table takes no records while its files are rewritten, and all keys are
read twice.
"""

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from broker.catalog.errors import CatalogError
from broker.catalog.holds import ERASURE as HOLDER
from broker.failpoints import passing
from broker.protocol.errors import KafkaError
from broker.status.file import read as read_status
from broker.status.schema import CompactorStatus, held_sentence
from jobs.erasing import past, records, search, segments
from jobs.erasing.compactors import check_all_heard
from jobs.erasing.expression import by_expression
from jobs.erasing.records import Erasure
from jobs.erasing.search import Search
from jobs.erasing.table import (
    Look,
    NotErased,
    check_erasable,
    delete_dead,
    erase,
    look,
)
from jobs.extent import Extents, NoSuchTopic, NotInTime, Stuck
from jobs.merging.rewrite import drop_spilled
from jobs.owners.statement import hold
from lakehouse.errors import CommitRefused
from lakehouse.in_flight import is_begun

HOLD_MS: Final = 600_000
"""Whoever is killed holds the table for so long at most."""
HOLD_AGAIN_S: Final = 60.0
LOOKS_MAX: Final = 3
POLL_S: Final = 0.2
_ALL_THE_TIME: Final = "its owner changes the table all the time"
PROVEN: Final = (
    "no data file of the table has such a row",
    "no segment file is left that was there before",
    "nothing of it is kept in the broker's memory",
)


class Asked(NamedTuple):
    """What is to be erased: a key, or what an expression of Spark's SQL is true of."""

    topic: str
    key: bytes | None = None
    where: str | None = None

    @property
    def kind(self) -> str:
        return "where" if self.key is None else "key"

    @property
    def what(self) -> bytes:
        return (self.where or "").encode() if self.key is None else self.key


class Counts(NamedTuple):
    """Of one partition; of -1, what `reported` says. ``rows`` that
    match in the table; ``older_files`` that have such rows of older versions alone;
    ``not_in_table``: offsets that were not looked at; ``unsure``: files and directories
    that would stay, and may have such rows."""

    partition: int
    rows: int
    older_files: int
    not_in_table: int
    unsure: int = 0


def dry_run(data_dir: Path, asked: Asked) -> list[Counts]:
    """What would be erased now; changes nothing. Raises as `run`."""
    with closing(Extents(data_dir)) as extents:
        [extent] = extents.of([asked.topic])
        [topic] = extents.topics([asked.topic])
        if extent.version is None:
            raise NotErased(extent.problem or f"{asked.topic} has no table yet")
        with searching(asked, extent.path, topic.id.hex()) as wanted:
            found = look(extent.path, topic.id.hex(), wanted)
    rows, older, kept = found.rows, found.past_files, found.kept_files
    behind = {p.partition: p.high_watermark - (p.table_end or 0)
              for p in extent.partitions}  # fmt: skip
    return [
        Counts(p, rows.get(p, 0), older.get(p, 0), behind.get(p, 0), kept.get(p, 0))
        for p in sorted(behind | rows | older | kept)
    ]


def run(data_dir: Path, asked: Asked, timeout_s: float) -> Erasure:
    """Erase it, and say what was done and proven.

    Raises NotErased, NoSuchTopic, NotInTime, Stuck, LakehouseError, and what Spark does
    of an expression that it does not understand; running it again goes on.
    """
    if not segments.broker_runs(data_dir):
        raise NotErased(
            f"no broker runs on {data_dir}, and only a broker can let segments go: "
            "start it, and ask again"
        )
    with _alone(data_dir) as spill, closing(Extents(data_dir)) as extents:
        extents.release_all(HOLDER)  # of those that were killed: none runs but this
        _check_not_held(extents, asked.topic)
        [extent] = _compacted(extents, asked.topic, timeout_s)
        [topic] = extents.topics([asked.topic])
        root, topic_id = extent.path, topic.id.hex()
        digest = records.digest_of(topic_id, asked.kind, asked.what)
        before = check_erasable(root, topic_id).version
        with searching(asked, root, topic_id) as wanted:
            hold_alone = partial(_hold_alone, extents, data_dir, asked.topic, timeout_s)
            with _held_for_longer(extents, asked.topic):
                hold_alone()
                _check_not_held(extents, asked.topic)  # all this takes its time
                drop_spilled(str(data_dir / "spill"), root)
                files, kept = _erase(root, topic_id, wanted, digest, hold_alone, spill)
            left = segments.renew(data_dir, extents, timeout_s)
            passing("erase.after_segments")
            found_again = partial(_left_in_table, root, topic_id, wanted, kept)
            with _held_for_longer(extents, asked.topic):
                left += _once_alone(hold_alone, found_again)
        left += past.in_log(root, asked.key, asked.where)
        left += past.of_deleted_topics(data_dir, asked.topic)
        # a file's name may be no text
        left = [one.encode(errors="backslashreplace").decode() for one in left]
        known = records.last_version(data_dir, digest)
        after = check_erasable(root, topic_id).version
        done = Erasure(
            asked.topic, topic_id, asked.kind, digest,
            records.erased_since(root, digest, known), files, before, after,
            () if left else PROVEN, left,
        )  # fmt: skip
        records.write(data_dir, done)
    return done


@contextmanager
def searching(asked: Asked, root: str, topic_id: str) -> Iterator[Search]:
    """How to look for what was asked for; an expression takes a Spark of its own."""
    if asked.key is not None:
        yield search.by_key(asked.key)
        return
    from jobs.session import end_session, make_session, saying

    table = check_erasable(root, topic_id)
    assert asked.where is not None
    session: Any = make_session("local[*]", "lakelog erase")
    try:
        with saying():
            yield by_expression(session, table, asked.where)
    finally:
        end_session(session)


def _check_not_held(extents: Extents, topic: str) -> None:
    """Raise NotErased if its owner wants nothing to come into its table: what leaves it
    would be in the way of what he does there, too."""
    until_ms = extents.held_by_others(topic, HOLDER)
    if until_ms is not None:
        why = held_sentence(topic, until_ms)
        raise NotErased(f"{why}; nothing was changed")


def _compacted(extents: Extents, topic: str, timeout_s: float) -> list[Any]:
    """Its extent, once all that is durable by now stands in its table."""
    try:
        found = extents.compact([topic], timeout_s)
    except NotInTime as error:
        raise NotErased(
            f"{error} (what an open transaction holds back is erased once it has "
            "ended); nothing was changed"
        ) from error
    except Stuck as error:
        raise NotErased(f"{error}; nothing was changed") from error
    if not found or found[0].version is None:
        raise NotErased(f"{topic} has no table: nothing was ever committed to it")
    return found


@contextmanager
def _held_for_longer(extents: Extents, topic: str) -> Iterator[None]:
    """What `_hold_alone` holds inside is held for longer again and again, by a thread:
    nobody knows how long a look takes, or a file. It ends with a release."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(HOLD_AGAIN_S):
            # a locked catalog is asked again in time; `_hold_alone` raises what stays
            with suppress(SQLAlchemyError, KafkaError, CatalogError, NoSuchTopic):
                extents.hold(topic, HOLD_MS, HOLDER)

    thread = threading.Thread(target=renew, name="hold", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        extents.release(topic, HOLDER)


def _hold_alone(extents: Extents, data_dir: Path, topic: str, timeout_s: float) -> None:
    """Hold the table, for longer if it is held: when this returns nothing of ours
    commits to it, writes files for it or reads its own to write them anew. Raises
    NotErased and NotInTime, and it is held all the same."""
    hold(extents, data_dir, topic, HOLD_MS, HOLDER)
    check_all_heard(data_dir)  # now: one that goes on may have seen no hold
    _wait_for_rewrite(data_dir, topic, timeout_s)
    check_all_heard(data_dir)


def _wait_for_rewrite(data_dir: Path, topic: str, timeout_s: float) -> None:
    """Until no merge or clean reads the table any more: none begins while it is held,
    and what was under way comes to nothing. Or until the compactor says nothing."""
    deadline = time.monotonic() + timeout_s
    while True:
        status = read_status(data_dir, CompactorStatus, time.time())
        if status is None or status.state == "stopped" or status.rewriting != topic:
            return
        if time.monotonic() > deadline:
            raise NotErased(
                f"the compactor has been writing files of {topic} anew for "
                f"{timeout_s:g} s; ask again"
            )
        time.sleep(POLL_S)


def _erase(
    root: str,
    topic_id: str,
    wanted: Search,
    digest: str,
    hold_alone: Callable[[], None],
    spill: Path,
) -> tuple[int, dict[str, str]]:
    """Until a look finds nothing: owners may commit meanwhile. Returns how many files
    were deleted, and what was kept, path -> why: with the rows their offsets are gone,
    which alone may show it. ``hold_alone`` is called behind each look: a process that
    was stopped in it holds the table no more. Raises NotErased, in the words of a
    commit's refusal if nobody changed the table since it was refused before."""
    files, attempts, kept = 0, _attempts(), dict[str, str]()
    why, refused_at = _ALL_THE_TIME, None
    for _ in range(LOOKS_MAX):
        found = look(root, topic_id, wanted)
        kept |= found.kept
        if _is_nothing(found):
            return files, kept
        hold_alone()
        before = found.table.version
        try:
            erase(found, topic_id, digest, attempts, str(spill))
            why = _ALL_THE_TIME
            files += len(found.live) + len(found.marked) + len(found.past)
        except CommitRefused as error:  # if its owner was faster: look again
            why = str(error)
            if before == refused_at:
                break
            refused_at = found.table.version
    if not _is_nothing(look(root, topic_id, wanted)):
        raise NotErased(f"{why}; ask again")
    return files, kept


def _is_nothing(found: Look) -> bool:
    return not found.live and not found.marked and not found.past


def _left_in_table(
    root: str, topic_id: str, wanted: Search, kept: Mapping[str, str], *, is_alone: bool
) -> list[str]:
    """Sentences on what is in the table's directory all the same, that which was
    ``kept`` among it, but for what a commit has named since."""
    found = look(root, topic_id, wanted)
    begun = [path for path in found.past if is_begun(path)]
    named = {file.relative_path for file in found.table.files.values()}
    named |= found.table.left.keys()
    left = found.unsure + [
        f"{path} {why}"
        for path, why in sorted(kept.items())
        if path not in found.kept and path not in found.past and path not in named
        and os.path.lexists(os.path.join(root, path))
    ]  # fmt: skip
    if found.live:
        rows = sum(found.rows.values())
        left.append(f"{rows} such rows came meanwhile: ask again")
    if appeared := len(found.past) - len(begun):
        left.append(f"{appeared} files with such rows appeared: ask again")
    return left + _left_of_begun(root, begun, is_alone=is_alone)


def _left_of_begun(root: str, begun: Sequence[str], *, is_alone: bool) -> list[str]:
    """The same of files that were begun to be written, and have such rows or cannot be
    read: they are deleted as by `erase` if it ``is_alone``, since whoever was at them
    is gone."""
    if not begun:
        return []
    if is_alone:
        delete_dead(root, begun)
        return []
    written = f"{len(begun)} files that are being written"
    return [f"{written} have such rows, or may have: ask again"]


def _once_alone(
    hold_alone: Callable[[], None], left: Callable[..., list[str]]
) -> list[str]:
    """What is ``left`` when nothing of ours writes for the table any more: a round that
    began behind the first hold may have read what the log gave up since, and may have
    been killed. Where something may yet write, that is said, and nothing is deleted
    beneath it."""
    try:
        hold_alone()
    except NotInTime as error:
        why = f"{error}, and a round may yet bring such rows: ask again"
    except NotErased as error:
        why = str(error)
    else:
        return left(is_alone=True)
    return [*left(is_alone=False), why]


def _attempts() -> Iterator[str]:
    """What names of new files have, each once."""
    pid, now_ms = os.getpid(), int(time.time() * 1000)
    return (f"{pid:x}-{now_ms:x}-e{number:x}" for number in count())


@contextmanager
def _alone(data_dir: Path) -> Iterator[Path]:
    """A directory for what does not fit into memory, of the one erasure that runs.
    Raises NotErased if another one does."""
    spill = data_dir / "spill-erase"
    run_dir = data_dir / "run"
    run_dir.mkdir(exist_ok=True)
    with open(run_dir / "erase.lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotErased("another lakelog erase runs here; wait for it") from None
        shutil.rmtree(spill, ignore_errors=True)  # of one that was killed
        try:
            yield spill
        finally:
            shutil.rmtree(spill, ignore_errors=True)
