"""What a broker answers to those who administer it, asked over raw frames.

``table(bootstrap)`` asks each such API in each version: what is right, what is wrong,
and what is not there. The answers come as lines, of each message what is not as if
unsaid; without what a broker makes up (ids, times, this run's names); versions that are
answered alike share one. So two brokers' tables can be compared.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from tests.support.corners import span
from tests.support.peer import Peer

PATIENCE_S = 60.0
MADE_UP: Final = frozenset(
    {
        "throttle_time_ms", "high_watermark", "leader_epoch", "log_end_offset",
        "last_fetch_timestamp", "last_caught_up_timestamp", "replica_directory_id",
        "documentation", "partition_size", "total_bytes", "usable_bytes", "log_dir",
        "topic_id", "port",
    }
)  # fmt: skip
Case = tuple[str, Any, Iterable[int]]
"""What is special about it, the request, the versions in which it is asked."""


def plain(answer: Any) -> Any:
    """What a message says, without what is as if unsaid, and what is made up.

    That no error has no message is said by null or by nothing, which is one."""
    if isinstance(answer, list):
        return sorted((plain(one) for one in answer), key=repr)
    if not is_dataclass(answer):
        return int(answer) if isinstance(answer, int) else answer
    unsaid = type(answer)()
    said = {
        field.name: plain(getattr(answer, field.name))
        for field in fields(answer)
        if field.name not in MADE_UP
        and (field.name != "error_message" or getattr(answer, field.name))
        and getattr(answer, field.name) != getattr(unsaid, field.name)
    }
    return Said(said)


class Said(dict[str, Any]):
    """Fields and what they say."""

    def __repr__(self) -> str:
        return "(" + " ".join(f"{name}={value!r}" for name, value in self.items()) + ")"


class Asker:
    """One broker, asked; names of this run stand as ``R`` in what it answered."""

    def __init__(self, bootstrap: str, settle_s: float = 0.0) -> None:
        self.bootstrap = bootstrap
        self.settle_s = settle_s
        self.stand_ins: dict[str, str] = {}  # for names that each broker has its own
        self.run = os.urandom(4).hex()
        self.peer = Peer(bootstrap, PATIENCE_S)
        self.lines: dict[tuple[str, str], set[str]] = {}

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *_: object) -> None:
        self.peer.socket.close()

    def ask(self, request: Any, version: int) -> Any:
        """Its answer, or that it closed the connection."""
        try:
            return self.peer.ask(request, version)
        except ConnectionError:
            self.peer.socket.close()
            self.peer = Peer(self.bootstrap, PATIENCE_S)
            return "closed"

    def note(self, case: str, version: int, answer: Any) -> None:
        text = re.sub(self.run, "R", repr(plain(self._of_this_run(case, answer))))
        for name, instead in self.stand_ins.items():
            case, text = case.replace(name, instead), text.replace(name, instead)
        case, text = (re.sub(r"x{200,}(\.\.\.)?", "X", one) for one in (case, text))
        self.lines.setdefault((case, text), set()).add(f"v{version}")

    def _of_this_run(self, case: str, answer: Any) -> Any:
        """Of an answer that tells everything: what it tells of this run's topics."""
        if "everything" not in case or answer == "closed":
            return answer
        mine = {
            field.name: [one for one in value if self.run in repr(one)]
            for field in fields(answer)
            if isinstance(value := getattr(answer, field.name), list)
        }
        return replace(answer, **mine)

    def play(self, api: str, cases: Iterator[Case]) -> None:
        for case, request, versions in cases:
            for version in versions:
                self.note(f"{api}, {case}", version, self.ask(request, version))

    def table(self) -> list[str]:
        return sorted(
            f"{case}   {span(list(those))}: {answer}"
            for (case, answer), those in self.lines.items()
        )

    def create(self, name: str, partitions: int = 1) -> tuple[str, bytes]:
        """A new topic that can be written to; its name and its id."""
        from tests.support.admin_requests import leaders_of

        topic = f"{name}-{self.run}"
        topic_id = self.peer.create(topic, partitions)
        deadline = time.monotonic() + PATIENCE_S
        while leaders_of(self.peer, topic) != [1] * partitions:
            assert time.monotonic() < deadline, f"{topic} has no leader"
            time.sleep(0.05)
        return topic, topic_id
