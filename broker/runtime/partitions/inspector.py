"""A look inside each batch on its way to the disk, with the rules of its topic.

The problem: what a batch's header says of its records is the producer's word. A key
that is missing in a compacted topic, or a time that is years away, would stay for ever;
and a header whose newest timestamp is wrong (some clients never set it) makes look-ups
by time miss records. The idea: the thread that writes walks the records anyway, so it
tells what it saw, the rules are held against that, and the header is put right. Only
if a rule is broken the records are walked again, to name each that breaks one.

The price: a batch refused here has its offsets already, and leaves a gap in them.

Source: Kafka's ``LogValidator``; KIP-937 (times), KIP-467 (which records are at fault).
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from broker.ids import TopicNumber
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import correct_max_timestamp, read_header
from broker.records.inspect import Fault, Inspection, find_faults, inspect_batch
from broker.records.limits import RECORD_ERROR_BYTES, RECORD_ERRORS_MIN
from broker.storage.entry import Append

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
SHOWN_MAX: Final = 3
NO_KEY: Final = "Compacted topic cannot accept message without key"


class Rules(NamedTuple):
    """What a topic asks of its records; times in milliseconds."""

    needs_keys: bool
    before_max_ms: int
    after_max_ms: int


class Inspector:
    """Called with each append, on the writer's thread. Raises KafkaError to refuse it.

    ``rules`` by topic number is filled on the loop. A topic that is not there was
    deleted meanwhile: its batch harms nobody.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.rules: dict[TopicNumber, Rules] = {}
        self._now_ms = now_ms

    def bounds(self, topic_number: TopicNumber) -> tuple[int, int, int]:
        """What a topic takes now: (needs keys, oldest and newest time accepted)."""
        rules = self.rules.get(topic_number)
        if rules is None:
            return 0, INT64_MIN, INT64_MAX
        now_ms = self._now_ms()
        return (
            int(rules.needs_keys),
            now_ms - rules.before_max_ms,
            min(now_ms + rules.after_max_ms, INT64_MAX),
        )

    def __call__(self, append: Append) -> None:
        found = inspect_batch(append.batch, append.header)
        rules = self.rules.get(append.topic_number)
        if rules is not None and not append.header.is_control:  # that is the broker's
            self._check_rules(append, found, rules)
        if append.header.timestamp_type:
            return  # the broker stamped it
        if found.newest_ms != append.max_timestamp:
            _correct(append, found.newest_ms)

    def _check_rules(self, append: Append, found: Inspection, rules: Rules) -> None:
        _, oldest_ms, newest_ms = self.bounds(append.topic_number)
        if append.header.timestamp_type:  # stamped by the broker: never out of range
            oldest_ms, newest_ms = INT64_MIN, INT64_MAX
        is_timely = found.oldest_at < 0 or (
            oldest_ms <= found.oldest_ms and found.newest_ms <= newest_ms
        )
        if is_timely and not (rules.needs_keys and found.null_keys):
            return
        faults, total = find_faults(
            append.batch,
            append.header,
            needs_keys=rules.needs_keys,
            oldest_ms=oldest_ms,
            newest_ms=newest_ms,
        )
        named_max = RECORD_ERRORS_MIN + len(append.batch) // RECORD_ERROR_BYTES
        raise _refused(faults, total, named_max, oldest_ms, newest_ms)


def _correct(append: Append, newest_ms: int) -> None:
    assert not isinstance(append.batch, bytes), "received into memory of our own"
    correct_max_timestamp(append.batch, newest_ms)
    append.header = read_header(append.batch)
    append.max_timestamp = newest_ms


def _refused(
    faults: Sequence[Fault], total: int, named_max: int, oldest_ms: int, newest_ms: int
) -> KafkaError:
    """The error for the whole batch, with the first records at fault (KIP-467)."""
    named = tuple(
        (fault.record, NO_KEY)
        if fault.is_keyless
        else (
            fault.record,
            f"Timestamp {fault.timestamp_ms} of message at index {fault.record} is out "
            f"of range. It should be within [{oldest_ms}, {newest_ms}]",
        )
        for fault in faults[:named_max]
    )
    if all(fault.is_keyless for fault in faults):
        first = ", ".join(f"record {at}: {why}" for at, why in named[:SHOWN_MAX])
        return KafkaError(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {total} record errors in "
            f"total, and only showing the first three errors at most: [{first}]",
            named,
        )
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP,
        "One or more records have been rejected due to invalid timestamp",
        named,
    )
