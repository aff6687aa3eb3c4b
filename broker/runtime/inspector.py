"""A look inside each batch on its way to the disk, with the rules of its topic.

The problem: what a batch's header says of its records is the producer's word. A key
that is missing in a compacted topic, or a time that is years away, would stay for ever;
and a header whose newest timestamp is wrong (some clients never set it) makes look-ups
by time miss records. The idea: the thread that writes walks the records anyway, so it
tells what it saw, the rules are held against that, and the header is put right.

The price: a batch refused here has its offsets already, and leaves a gap in them.

Source: Kafka's ``LogValidator``; KIP-937 (times), KIP-467 (which record is at fault).
"""

from collections.abc import Callable
from typing import NamedTuple

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import correct_max_timestamp, read_header
from broker.records.inspect import Inspection, inspect_batch
from broker.storage.entry import Append


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
        self.rules: dict[int, Rules] = {}
        self._now_ms = now_ms

    def __call__(self, append: Append) -> None:
        found = inspect_batch(append.batch, append.header)
        rules = self.rules.get(append.topic_number)
        if rules is not None and rules.needs_keys and found.null_keys:
            raise _refused(
                ErrorCode.INVALID_RECORD,
                found.null_key_at,
                "Compacted topic cannot accept message without key",
            )
        if append.header.timestamp_type:
            return  # the broker stamped it
        if rules is not None:
            self._check_times(found, rules)
        if found.newest_ms != append.max_timestamp:
            _correct(append, found.newest_ms)

    def _check_times(self, found: Inspection, rules: Rules) -> None:
        if found.oldest_at < 0:
            return
        now_ms = self._now_ms()
        if found.newest_ms - now_ms > rules.after_max_ms:
            raise _out_of_time(found.newest_ms, found.newest_at, now_ms)
        if now_ms - found.oldest_ms > rules.before_max_ms:
            raise _out_of_time(found.oldest_ms, found.oldest_at, now_ms)


def _correct(append: Append, newest_ms: int) -> None:
    assert not isinstance(append.batch, bytes), "received into memory of our own"
    correct_max_timestamp(append.batch, newest_ms)
    append.header = read_header(append.batch)
    append.max_timestamp = newest_ms


def _out_of_time(timestamp_ms: int, record: int, now_ms: int) -> KafkaError:
    return _refused(
        ErrorCode.INVALID_TIMESTAMP,
        record,
        f"Timestamp {timestamp_ms} of record {record} is out of range: "
        f"the time now is {now_ms}",
    )


def _refused(code: ErrorCode, record: int, why: str) -> KafkaError:
    return KafkaError(code, why, ((record, why),))
