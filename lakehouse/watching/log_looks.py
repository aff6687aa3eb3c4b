"""Which tables' logs are to be looked at now: those that moved, and no others.

The problem: an owner's commit must be seen within a second, and of ten thousand tables
nearly all are at rest. The idea: the system tells which logs change (`log_watch`); such
a table is looked at in each round for a while. Of a table that nothing tells of, the
time of its log's directory is looked at each second. And each table has its turn once
a minute, whatever anybody says of it.

The price: what neither the system nor a directory tells, an entry that is overwritten
in place on another machine's disk, is seen up to a minute later.
"""

from typing import Final, NamedTuple

from lakehouse.log.delta_log import stamp
from lakehouse.watching.log_watch import LogWatch

RECENT_MS: Final = 5_000
UNTOLD_MS: Final = 1_000
TURN_MS: Final = 60_000


class Due(NamedTuple):
    """Keys of tables that are to be looked at: ``anew``, where something happened or
    whose turn it is; and those where something did a moment ago."""

    anew: set[int]
    recent: set[int]


class LogLooks:
    """Tables by a key of the caller's. One thread at a time."""

    def __init__(self, watch: LogWatch) -> None:
        self._watch = watch
        self._paths: dict[int, str] = {}
        self._keys: dict[str, int] = {}
        self._new: set[int] = set()
        self._recent: dict[int, int] = {}
        """Until when each is looked at in each round."""
        self._untold: dict[int, int] = {}
        """How the logs stood that nothing tells of."""
        self._turns, self._stamps = _Turns(TURN_MS), _Turns(UNTOLD_MS)

    def __contains__(self, key: int) -> bool:
        return key in self._paths

    def add(self, key: int, path: str) -> None:
        """From now on, first in the next `due`; whoever looked before may have missed
        what happened since."""
        self.drop(key)
        self._paths[key], self._keys[path] = path, key
        self._new.add(key)
        self._follow(key)

    def drop(self, key: int) -> None:
        """No more."""
        path = self._paths.pop(key, None)
        if path is not None and self._keys.get(path) == key:
            del self._keys[path]
            self._watch.leave(path)
        for known in (self._recent, self._untold):
            known.pop(key, None)
        self._new.discard(key)

    def close(self) -> None:
        """Nothing tells any more."""
        self._watch.close()

    def all(self) -> None:
        """Look at all of them in the next `due`."""
        self._new.update(self._paths)

    def moved(self, key: int, now_ms: int) -> None:
        """Look at this one in each `due` for a while."""
        if key in self._paths:
            self._recent[key] = now_ms + RECENT_MS

    def due(self, now_ms: int) -> Due:
        """What is to be looked at now. Blocks for a moment."""
        anew, self._new = self._new, set()
        changed = self._watch.changed()
        if changed is None:
            anew.update(self._paths)
        else:
            anew.update(self._keys[path] for path in changed if path in self._keys)
        anew.update(self._stamped(now_ms))
        for key in anew:
            self._follow(key)
            self._recent[key] = now_ms + RECENT_MS
        for key in self._turns.take(self._paths, now_ms):
            self._follow(key)
            anew.add(key)
        over = [key for key, until_ms in self._recent.items() if until_ms <= now_ms]
        for key in over:
            del self._recent[key]
        return Due(anew, self._recent.keys() - anew)

    def _follow(self, key: int) -> None:
        """Before it is looked at, so that nothing happens in between."""
        path = self._paths[key]
        if self._watch.follow(path):
            self._untold.pop(key, None)
        else:
            self._untold[key] = stamp(path)

    def _stamped(self, now_ms: int) -> list[int]:
        """Those of which nothing tells, and whose logs are not as they were."""
        keys = self._stamps.take(self._untold, now_ms)
        return [key for key in keys if stamp(self._paths[key]) != self._untold[key]]


class _Turns:
    """Which of many have their turn, so that all have one in a time."""

    def __init__(self, all_in_ms: int) -> None:
        self._all_in_ms = all_in_ms
        self._since_ms: int | None = None
        self._left: list[int] = []
        self._owed = 0.0

    def take(self, keys: dict[int, str] | dict[int, int], now_ms: int) -> list[int]:
        since_ms, self._since_ms = self._since_ms, now_ms
        if since_ms is not None:
            self._owed += len(keys) * (now_ms - since_ms) / self._all_in_ms
        count = int(min(self._owed, len(keys)))
        self._owed = min(self._owed - count, 1.0)
        taken: list[int] = []
        while len(taken) < count:
            self._left = self._left or list(keys)
            key = self._left.pop()
            if key in keys:  # one that is not any more costs nobody a turn
                taken.append(key)
        return list(dict.fromkeys(taken))
