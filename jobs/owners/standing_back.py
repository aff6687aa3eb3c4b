"""Standing back from tables: because their owners say so, or are seen to try.

The problem: who changes a table in which records come every few seconds is refused by
Delta again and again. The idea: two ways to have the compactor wait. A *hold*
(`broker.catalog.holds`) is asked for, and lasts for as long as was said; an *attempt*
is seen, by files in the table's directories that we did not write, and waited for
shortly (`attempts`). Meanwhile nothing is committed to that table, by rounds, merges or
retention; the records are in the log, and consumers read them there.

What was asked for by name (`lakelog compact`) waits for holds, not for attempts.

The price: an attempt that writes no file, since all rows of its files go, is not seen,
nor one that writes beside the directories of partitions (Delta's random prefixes make
thousands of directories, and there are only so many that can be watched); an OPTIMIZE,
which needs no such wait, looks like a DELETE.
"""

import errno
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import structlog

from broker.catalog import holds
from broker.catalog.catalog import Catalog
from broker.clock import Clock
from broker.ids import TopicNumber
from broker.topics.topic import Topic
from jobs.merging.names import COPIED, OURS
from jobs.owners.attempts import Attempts
from jobs.tables import Table
from lakehouse.further import behind_link
from lakehouse.log.delta_log import LOG_DIRECTORY
from lakehouse.log.provenance import is_ours
from lakehouse.regular import open_file
from lakehouse.watching.inotify import DIRECTORIES_MAX, Appeared, Watch

_PARTITION: Final = re.compile(r"partition=[^/]+")
_ENTRY: Final = re.compile(r"\d{20}\.json")
_DATA: Final = (".parquet", ".bin")
"""Of rows, and of deletion vectors."""

log = structlog.get_logger("lakelog.compactor")


class StandingBack:
    """Called by the compactor's step alone."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        bound_ms: int,
        make_watch: Callable[[], Watch] = Watch,
    ) -> None:
        self._catalog, self._clock = catalog, clock
        self._attempts = Attempts(bound_ms)
        self._watch = _watch(make_watch) if bound_ms else None
        self._roots: dict[str, TopicNumber] = {}
        self._is_full = False
        self._topics: Mapping[TopicNumber, Topic] | None = None
        self._tables = 0
        """How many tables of which topics were followed in the last look."""
        self.holds: Mapping[TopicNumber, int] = {}
        """Topic number -> until when its table is held, on the wall clock."""
        self.erased: frozenset[TopicNumber] = frozenset()
        """Those of them that an erasure alone holds."""
        self.attempts: frozenset[TopicNumber] = frozenset()
        """Topics whose owners are waited for."""

    @property
    def waits(self) -> int:
        """How many times owners' attempts were waited for."""
        return self._attempts.seen

    def close(self) -> None:
        """Watch nothing any more."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def look(
        self, topics: Mapping[TopicNumber, Topic], tables: Collection[Table]
    ) -> None:
        """See what is held, and what owners do."""
        now_ms = self._clock.now_ms()
        found = self._catalog.read(lambda connection: holds.load(connection, now_ms))
        self.holds = {
            number: found[topic.id.hex()]
            for number, topic in (topics.items() if found else ())
            if topic.id.hex() in found
        }
        self.erased = self._erased(topics, now_ms) if found else frozenset()
        self._attempts.keep(topics.keys())
        if self._watch is not None:
            self._follow(self._watch, topics, tables)
        self.look_again()

    def _erased(
        self, topics: Mapping[TopicNumber, Topic], now_ms: int
    ) -> frozenset[TopicNumber]:
        owners = self._catalog.read(lambda c: holds.load(c, now_ms, but=holds.ERASURE))
        return frozenset(n for n in self.holds if topics[n].id.hex() not in owners)

    def look_again(self) -> None:
        """See what owners did since the last look."""
        if self._watch is not None:
            for one in self._watch.take():
                self._take(self._watch, one)
        self.attempts = self._attempts.waited_for(self._clock.monotonic_ms())

    def bars(
        self, number: TopicNumber, asked: Collection[TopicNumber] = frozenset()
    ) -> bool:
        """Whether nothing is to be committed to a topic's table. ``asked``: topics that
        somebody waits for."""
        return number in self.holds or (number in self.attempts and number not in asked)

    def committed(self, numbers: Iterable[TopicNumber]) -> None:
        """A round committed all that waited for these topics' tables."""
        self._attempts.committed(numbers)

    def _follow(
        self,
        watch: Watch,
        topics: Mapping[TopicNumber, Topic],
        tables: Collection[Table],
    ) -> None:
        """Watch these tables, and none of topics that are gone."""
        if topics is self._topics and len(tables) == self._tables:
            return
        self._topics, self._tables = topics, len(tables)
        for path in [p for p, number in self._roots.items() if number not in topics]:
            self._leave(watch, path)
        for table in tables:
            root = behind_link(table.path)
            if root not in self._roots and not self._is_full:
                self._enter(watch, table, root)

    def _enter(self, watch: Watch, table: Table, root: str) -> None:
        self._roots[root] = table.topic.number
        try:
            is_room = watch.add(root)
            for name in os.listdir(root):
                if name == LOG_DIRECTORY or _PARTITION.fullmatch(name):
                    is_room &= watch.add(os.path.join(root, name))
        except FileNotFoundError:  # it is away, and may come back: look for it again
            self._leave(watch, root)
            return
        except OSError as error:  # an owner may do anything; or the system has no room
            if error.errno != errno.ENOSPC:
                log.warning("a table is not watched", table=root, why=str(error))
                return
            is_room = False
        if not is_room:
            self._leave(watch, root)
            self._is_full = True
            log.warning(
                "owners of more tables are not waited for",
                watched=len(self._roots),
                most_directories=DIRECTORIES_MAX,
                limit_of_the_system="fs.inotify.max_user_watches",
            )

    def _leave(self, watch: Watch, root: str) -> None:
        self._roots.pop(root, None)
        self._is_full, self._tables = False, -1
        for path in watch.below(root):
            watch.remove(path)

    def _take(self, watch: Watch, one: Appeared) -> None:
        """A name that appeared: an attempt's, or what ends one."""
        if not one.directory:  # directories may have gone without a word
            for known in list(self._roots):
                self._leave(watch, known)
            return
        root, _, inside = one.directory.rpartition("/")
        if one.directory in self._roots:
            root, inside = one.directory, ""
        number = self._roots.get(root)
        if number is None:
            return
        if not one.name:
            if not inside:
                self._leave(watch, root)
        elif one.is_directory:
            self._directory(watch, number, one)
        elif inside == LOG_DIRECTORY:
            self._entry(number, one)
        elif _is_foreign(inside, one.name):
            self._attempts.began(number, self._clock.monotonic_ms())

    def _directory(self, watch: Watch, number: TopicNumber, one: Appeared) -> None:
        """A new partition, with what came into it before it was watched."""
        path = os.path.join(one.directory, one.name)
        if not _PARTITION.fullmatch(one.name):
            return
        try:
            watch.add(path)
            names = os.listdir(path)
        except OSError:
            return
        if any(_is_foreign(one.name, name) for name in names):
            self._attempts.began(number, self._clock.monotonic_ms())

    def _entry(self, number: TopicNumber, one: Appeared) -> None:
        """An entry of the table's log: an owner's, if it is none of ours."""
        if not _ENTRY.fullmatch(one.name):
            return
        try:
            with open_file(os.path.join(one.directory, one.name)) as file:
                text = file.read().decode()
        except (OSError, ValueError):
            return
        if not is_ours(text):
            self._attempts.ended(number)


def _is_foreign(directory: str, name: str) -> bool:
    """Whether a file that appeared is an owner's, of rows or of deletion vectors."""
    is_data = name.endswith(_DATA) and not name.startswith((".", "_"))
    path = f"{directory}/{name}"
    return is_data and not (OURS.fullmatch(path) or COPIED.fullmatch(path))


def _watch(make: Callable[[], Watch]) -> Watch | None:
    try:
        return make()
    except OSError as error:
        log.warning("owners of tables are not waited for", why=str(error))
        return None
