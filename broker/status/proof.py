"""That both sides have the secret, shown for one question without sending it.

The problem: what is sent to an address is sent to whoever listens there, also while the
part is away and somebody else has its port; and who listens there may answer what he
likes. The idea: each side names a number of chance, the part's (its challenge) made for
the connection that is asked on. The question carries an HMAC-SHA256 of itself, of the
part's name and of both numbers; the answer one of its status and its bytes besides. So
what was heard on the way is good for no other connection, question, part or process:
nothing is remembered for that, and no clock is looked at.

The price: two requests for a question, and an answer is known to be true only at its
end. Who stands between the two reads what they say, and may pass it on unchanged.
"""

import hmac
import re
from dataclasses import dataclass
from typing import Final

FAMILY: Final = "Lakelog-"
SCHEME: Final = f"{FAMILY}HMAC-SHA256"
"""How proof is given: another version that proves otherwise has another name."""
SEAL: Final = "Lakelog-Seal"
"""The trailer that has an answer's proof."""
_NUMBER: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question to one part, and the answer to it."""

    part: str
    challenge: str
    """The part's number."""
    number: str
    """The asker's."""
    method: str
    path: str

    def authorization(self, secret: str) -> str:
        """The header of the question, which proves that the asker has the secret."""
        return f"{SCHEME} {self.number} {self._mac(secret, 'question')}"

    def seal(self, secret: str, status: int, digest: str) -> str:
        """What proves that the part gave this answer; ``digest``: of its bytes."""
        return self._mac(secret, "answer", str(status), digest)

    def _mac(self, secret: str, *said: str) -> str:
        numbers = (self.challenge, self.number)
        facts = (*said, self.part, *numbers, self.method, self.path)
        text = "\n".join(facts)  # a header and a request line have none of these
        return hmac.new(secret.encode(), text.encode(), "sha256").hexdigest()


def challenge_header(challenge: str) -> str:
    """The WWW-Authenticate header that names a part's number."""
    return f"{SCHEME} {challenge}"


def challenge_of(header: str) -> str | None:
    """The number in such a header; None if it is none."""
    scheme, _, number = header.partition(" ")
    return number if scheme == SCHEME and _NUMBER.fullmatch(number) else None


def is_of_other_version(header: str) -> bool:
    """Whether it asks for a proof that another version of the parts knows."""
    scheme = header.partition(" ")[0]
    return scheme.startswith(FAMILY) and scheme != SCHEME


def proved(
    given: str, secret: str, part: str, challenge: str, method: str, path: str
) -> Exchange | None:
    """The exchange that an Authorization header proves; None if it proves none."""
    scheme, _, shown = given.partition(" ")
    number = shown.partition(" ")[0]
    if scheme != SCHEME or not _NUMBER.fullmatch(number):
        return None
    exchange = Exchange(part, challenge, number, method, path)
    return exchange if is_same(given, exchange.authorization(secret)) else None


def is_same(given: str, expected: str) -> bool:
    """Whether they are equal, in a time that does not say where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())
