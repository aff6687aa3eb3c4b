"""Which texts a client's regular expression matches, whatever it is.

The problem: Python's expressions go back and try again, so that one of twenty letters
may take for ever; and they are not those of Kafka, whose users write RE2's. The idea:
Arrow brings RE2 itself, which reads each text once and refuses what would take much
memory. The price: a hundred milliseconds to load Arrow when the first one is asked.
"""

from collections.abc import Sequence

from broker.protocol.errors import ErrorCode, KafkaError


def matching(pattern: str, texts: Sequence[str]) -> list[bool]:
    """For each text whether the pattern matches all of it. Blocks.

    Raises KafkaError INVALID_REGULAR_EXPRESSION, saying why.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    def search(wanted: str, among: Sequence[str]) -> list[bool]:
        found = pc.match_substring_regex(pa.array(among, pa.string()), wanted)
        return [bool(one) for one in found.to_pylist()]

    try:
        search(pattern, [""])  # alone: what is put around it must not make it right
        quoted = r"\E" if _is_quoting(pattern) else ""
        return search(rf"\A(?:{pattern}{quoted})\z", texts)
    except pa.ArrowInvalid as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error


def _is_quoting(pattern: str) -> bool:
    r"""Whether it ends inside a quotation, from a ``\Q`` on that has no ``\E``."""
    at = 0
    while (at := pattern.find("\\", at)) >= 0:
        if pattern[at : at + 2] == r"\Q":
            at = pattern.find(r"\E", at + 2)
            if at < 0:
                return True
        at += 2
    return False
