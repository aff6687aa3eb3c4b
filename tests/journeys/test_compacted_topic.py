"""A compacted topic under its clients: gaps, and never a key without its last value.

A broker, a compactor with a real Spark that cleans at once, clients, and an analyst's
Spark; the long form is ``lakelog up`` as it is, which lets a table rest for a minute.
"""

import json
from contextlib import closing

import pytest

from jobs.check import check_data_directory
from jobs.extent import Extents
from lakehouse.location import table_path
from tests.support.confluent import create, produce_all
from tests.support.patience import STUCK_S, Patience, wait_until
from tests.support.process import EagerPart, WholePart
from tests.support.readers import by_deltalake, consumed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.shared_out("tables", 4, whole=True),
]

SETTINGS = (
    "wal.keep_ms=0",
    "wal.idle_seal_ms=100",
    "lake.flush_ms=60000",
    "lake.flush_max_ms=60000",
    "lake.follow_ms=50",
)
TOPIC = "current"
CONFIGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
OFFSET, KEY, VALUE = 1, 4, 5
ROUNDS_MIN = 3


@pytest.fixture(params=[EagerPart, pytest.param(WholePart, marks=pytest.mark.slow)])
def whole(tmp_path, request):
    part = request.param(tmp_path / "data", *SETTINGS)
    part.start()
    if request.param is WholePart:
        part.hear("compactor ready")
    yield part
    part.end()


def cleans(whole) -> int:
    status = json.loads((whole.data_dir / "run" / "compactor.json").read_text())
    return int(status["counters"]["cleans_total"])


class Story:
    """What was produced, and that nobody ever misses a last value."""

    def __init__(self, whole) -> None:
        self.whole, self.produced, self.rounds = whole, dict[int, tuple](), 0

    def produce(self) -> None:
        """Records of a few keys, in a file of their own; one of them a tombstone."""
        self.rounds += 1
        records = [
            (b"%d" % (n % 7), b"%d-%d" % (self.rounds, n), [("n", b"%d" % n)], 0)
            for n in range(20)
        ]
        records.append((b"gone", b"1" if self.rounds == 1 else None, [], 0))
        for message in produce_all(self.whole.bootstrap, TOPIC, records):
            self.produced[message.offset()] = (message.key(), message.value())
        with closing(Extents(self.whole.data_dir)) as extents:
            extents.compact([TOPIC], STUCK_S)

    def last(self) -> dict[bytes, int]:
        return {key: offset for offset, (key, _) in sorted(self.produced.items())}

    def judge(self, rows) -> None:
        offsets = [row[OFFSET] for row in rows]
        assert offsets == sorted(set(offsets))
        for row in rows:
            assert (row[KEY], row[VALUE]) == self.produced[row[OFFSET]]
        assert set(self.last().values()) <= set(offsets)


def test_readers_meet_gaps_and_the_table_becomes_the_current_state(whole, analyst):
    create(whole.bootstrap, TOPIC, **CONFIGS)
    story, patience = Story(whole), Patience()
    while story.rounds < ROUNDS_MIN or not cleans(whole):
        assert patience.lasts(story.rounds)
        story.produce()
        story.judge(consumed(whole.bootstrap, TOPIC))
    story.produce()
    story.judge(consumed(whole.bootstrap, TOPIC))
    path = table_path(str(whole.data_dir / "tables"), TOPIC)
    wait_until(lambda: len(by_deltalake(path)) <= 8, STUCK_S, pause_s=0.5)
    found = by_deltalake(path)
    story.judge(found)
    assert {row[KEY]: row[OFFSET] for row in found} == story.last()
    assert len(found) == 8
    asked = f"SELECT count(*), count(DISTINCT key) FROM delta.`{path}`"
    assert analyst.ask(asked) == [[8, 8]]
    story.judge(consumed(whole.bootstrap, TOPIC))
    assert check_data_directory(whole.data_dir).problems == []
