"""That somebody has the secret, shown to the part that is asked without sending it.

The problem: what is sent to an address is sent to whoever listens there, also while the
part is away and somebody else has its port. The idea: a request carries no secret but
an HMAC-SHA256 of itself: of its method and path, of the time, and of a number that is
used once. The part answers each proof once, within `WINDOW_MS` of its time, and none
from before it listened: so nothing that was heard on the way is good for asking again.

The price: the clocks of both machines agree within that; and who asks does not know
that it is the part who answers.
"""

import hmac
import threading
from typing import Final

SCHEME: Final = "Lakelog-HMAC-SHA256"
WINDOW_MS: Final = 60_000
SEEN_MAX: Final = 100_000
"""So many within two windows; only who has the secret makes any."""


def proof(secret: str, method: str, path: str, now_ms: int, number: str) -> str:
    """The Authorization header of a request; ``number`` is of chance, and has no
    spaces."""
    return f"{SCHEME} {now_ms} {number} {_mac(secret, method, path, now_ms, number)}"


def _mac(secret: str, method: str, path: str, now_ms: int, number: str) -> str:
    text = f"{method} {path}\n{now_ms} {number}"
    return hmac.new(secret.encode(), text.encode(), "sha256").hexdigest()


class Proofs:
    """Those that a part has answered. Any thread."""

    def __init__(self, secret: str, since_ms: int) -> None:
        """``since_ms``: since when it listens."""
        self._secret, self._since_ms = secret, since_ms
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()

    def take(self, given: str, method: str, path: str, now_ms: int) -> bool:
        """Whether this header proves that who sends it now has the secret; from then on
        it does no more."""
        parts = given.split(" ")
        if len(parts) != len(("scheme", "time", "number", "mac")):
            return False
        scheme, time, number, mac = parts
        if scheme != SCHEME or not (time.isdecimal() and time.isascii()):
            return False
        if len(time) > len(str(now_ms)) + 1:
            return False
        expected = _mac(self._secret, method, path, int(time), number)
        if not hmac.compare_digest(mac.encode("latin-1", "replace"), expected.encode()):
            return False
        is_fresh = abs(now_ms - int(time)) <= WINDOW_MS and int(time) >= self._since_ms
        return is_fresh and self._is_first(number, now_ms)

    def _is_first(self, number: str, now_ms: int) -> bool:
        with self._lock:
            while self._seen:
                oldest = next(iter(self._seen))
                if self._seen[oldest] >= now_ms - 2 * WINDOW_MS:
                    break
                del self._seen[oldest]
            if number in self._seen or len(self._seen) >= SEEN_MAX:
                return False
            self._seen[number] = now_ms
            return True
