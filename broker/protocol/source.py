"""The source text of a codec while it is being written.

Neighbouring fields of fixed size wait in `run` until something of variable size comes,
so that one `struct` call serves them all.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from broker.protocol.schema import FIXED
from broker.protocol.wire import ELEMENTS_A_TURN

_LETTERS = {"?": "t", "16s": "u"}
_BYTES = {"b": 1, "B": 1, "?": 1, "x": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8}


class Source:
    """Lines of Python with their indentation, and the names that they refer to."""

    def __init__(self, verb: str) -> None:
        self.names: dict[str, object] = {}
        self.run: list[tuple[str, str]] = []
        self._verb = verb
        self._lines: list[str] = []
        self._depth = 0
        self._variables = 0

    @property
    def text(self) -> str:
        assert not self.run, "a run of fields was left behind"
        return "\n".join(self._lines) + "\n"

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A head with a colon; what is written inside is its indented body."""
        self.line(head + ":")
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def begin_turns(self) -> None:
        """At the head of a function that gives way: it is a generator."""
        self.line("work = 0")
        with self.block("if False"):  # also where there is no loop
            self.line("yield")

    def give_way(self, *before: str) -> None:
        """In a loop: yield after each ``ELEMENTS_A_TURN`` elements, of all loops.

        ``before``: lines that are run before it yields.
        """
        self.line("work += 1")
        with self.block(f"if work > {ELEMENTS_A_TURN}"):
            self.line("work = 0")
            for line in before:
                self.line(line)
            self.line("yield")

    def variable(self, name: str) -> str:
        """A name that nothing else has."""
        self._variables += 1
        return f"{name}_{self._variables}"

    def packer(self, formats: list[str]) -> str:
        """The name of a compiled `struct` method for these formats in a row."""
        text = "".join(formats)
        name = f"{self._verb}_{''.join(_LETTERS.get(f, f) for f in formats)}"
        self.names[name] = getattr(struct.Struct(">" + text), self._verb)
        return name


def size_of(formats: list[str]) -> int:
    """The bytes of some `struct` formats in a row."""
    return sum(16 if f == FIXED["uuid"] else _BYTES[f] for f in formats)
