"""Being the one compactor that writes to further warehouses, of which one may be away.

The problem: as with a warehouse (`jobs.warehouse`), a copy of the data directory may
lead to the same tables, and a disk may go while we run, and another one stand in its
place; but of several disks one that is away stops the topics whose tables lie there,
and no others. The idea: each that is there is locked by a file in it, and its tables
take commits only while that file is the one that is locked. One that another compactor
has stops all of them, for then the data directory was copied.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.ids import TopicNumber
from broker.storage.files import Files
from broker.topics.topic import Topic
from jobs.held_file import HeldFile
from jobs.space import Volume, full_sentence, low_mark, volume
from lakehouse import further
from lakehouse.location import table_place
from lakehouse.warehouse_names import name_of

LOCK: Final = f"{further.MARK}.compactor"


class FurtherWarehouses:
    """Those of the warehouse at ``warehouse``. All methods block for a moment."""

    def __init__(self, files: Files, warehouse: str, low_bytes: int) -> None:
        self._files, self._warehouse, self._low_bytes = files, warehouse, low_bytes
        self._held: dict[str, HeldFile] = {}
        self._full: dict[str, str] = {}
        self._failed: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """A sentence for each that takes nothing although its disk is there."""
        return [*self._full.values(), *self._failed.values()]

    def take(self) -> str | None:
        """Lock those that are there; one sentence if another compactor has one."""
        self._failed.clear()
        for name in further.names(self._warehouse):
            try:
                if not self._holds(name) and not self._lock(name):
                    place = os.path.realpath(further.link_of(self._warehouse, name))
                    whose = "in use by another compactor"
                    return f"the warehouse {name}, {place}, is {whose}"
            except OSError as error:
                self._failed[name] = f"the warehouse {name} cannot be used: {error}"
        return None

    def takes(self, topic: Topic | None) -> bool:
        """Whether a topic's table may be committed to, by the warehouse it lies in."""
        name = "" if topic is None else self._name(topic)
        return not name or self._holds(name)

    def with_space(
        self, topics: Mapping[TopicNumber, Topic]
    ) -> Mapping[TopicNumber, Topic]:
        """Those whose tables do not lie on a disk that was nearly full at the last
        look."""
        if not self._full:
            return topics
        return {n: o for n, o in topics.items() if self._name(o) not in self._full}

    def look(self, log: Volume) -> None:
        """See which of them are nearly full; ``log``: the disk of the log."""
        self._full = {}
        for name in self._held:
            try:
                link = further.link_of(self._warehouse, name)
                found = volume(link)
            except OSError:
                continue
            mark = low_mark(found, log, self._low_bytes)
            why = full_sentence(os.path.realpath(link), found, mark)
            if why is not None:
                self._full[name] = why

    def close(self) -> None:
        """Another one may have them."""
        while self._held:
            self._held.popitem()[1].release()

    def _name(self, topic: Topic) -> str:
        """The one in which its table lies, or is to: an operator may have moved it."""
        name = name_of(topic.configs)
        place = table_place(self._warehouse, topic.name)
        if not name or not os.path.lexists(place):
            return name
        return further.named_by(place) or ""

    def _lock(self, name: str) -> bool:
        """Lock it if it is there; whether nobody else has it."""
        if further.why_not(self._warehouse, name) is not None:
            return True
        held = HeldFile(self._files, self._file(name))
        if not held.take():
            return False
        if further.why_not(self._warehouse, name) is None and held.is_there():
            self._held[name] = held
        else:
            held.release()
        return True

    def _holds(self, name: str) -> bool:
        """Whether the file that is locked is the one that lies there."""
        held = self._held.get(name)
        if held is None or held.is_there():
            return held is not None
        del self._held[name]
        return False

    def _file(self, name: str) -> Path:
        return Path(further.link_of(self._warehouse, name), LOCK)
