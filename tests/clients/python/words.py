"""Records as words, as ``tests/support/foreign.py`` writes and reads them."""

import queue
import sys
import threading

Headers = list[tuple[str, bytes | None]]


def record(line: str) -> tuple[bytes | None, bytes | None, Headers] | None:
    """Key, value and headers of a line; None for one that asks for something."""
    words = line.split()
    if len(words) != 3:
        return None
    pairs = [] if words[2] == "-" else words[2].split(",")
    parts = [pair.partition("=") for pair in pairs]
    return _bytes(words[0]), _bytes(words[1]), [(n, _bytes(v)) for n, _, v in parts]


def emit(
    partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> None:
    """Report a record that was read."""
    pairs = ",".join(f"{name}={_word(one)}" for name, one in headers)
    print("record", partition, offset, _word(key), _word(value), pairs or "-")
    sys.stdout.flush()


def done() -> None:
    """Answer what was asked."""
    print("done", flush=True)


class Assigned:
    """Reports what a member owns, whenever that is something else."""

    def __init__(self) -> None:
        self._last: set[int] | None = None

    def tell(self, partitions: set[int]) -> None:
        if partitions != self._last:
            print("assigned", ",".join(map(str, sorted(partitions))), flush=True)
        self._last = partitions


class Asked:
    """The lines of the standard input, for a loop that must not wait for them."""

    def __init__(self) -> None:
        self.ended = False
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self._lines.put(line.strip())
        self._lines.put(None)

    def take(self) -> list[str]:
        """What came since the last time; ``ended`` is set behind the last line."""
        found = []
        while not self._lines.empty():
            line = self._lines.get()
            if line is None:
                self.ended = True
            else:
                found.append(line)
        return found


def start_of(text: str) -> tuple[int | None, int | None]:
    """An offset, or the time in ms that ``@`` stands before."""
    return (None, int(text[1:])) if text.startswith("@") else (int(text), None)


def _bytes(word: str) -> bytes | None:
    return None if word == "-" else bytes.fromhex(word[1:])


def _word(value: bytes | None) -> str:
    return "-" if value is None else f"x{value.hex()}"
