"""Small files become large ones under readers of all kinds, and none notices.

A broker, a compactor with a real Spark that merges three files, clients, and an
analyst's Spark; the long form is ``lakelog up`` as it is, which waits for sixteen.
"""

import json
from contextlib import closing

import pytest

from jobs.check import check_data_directory
from jobs.extent import Extents
from lakehouse.location import table_path
from lakehouse.log.delta_log import load
from tests.support.confluent import create, produce_all
from tests.support.patience import STUCK_S, Patience
from tests.support.process import EagerPart, WholePart
from tests.support.readers import consumed

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
TOPIC = "merged"


@pytest.fixture(params=[EagerPart, pytest.param(WholePart, marks=pytest.mark.slow)])
def whole(tmp_path, request):
    part = request.param(tmp_path / "data", *SETTINGS)
    part.start()
    if request.param is WholePart:
        part.hear("compactor ready")
    yield part
    part.end()


def merges(whole) -> int:
    status = json.loads((whole.data_dir / "run" / "compactor.json").read_text())
    return int(status["counters"]["merges_total"])


def round_of(whole, number: int) -> None:
    """Some records, in a file of their own."""
    records = [
        (b"%d" % (i % 7), b"%d-%d " % (number, i) * 9, [("n", b"%d" % i)], 0)
        for i in range(30)
    ]
    produce_all(whole.bootstrap, TOPIC, records)
    with closing(Extents(whole.data_dir)) as extents:
        extents.compact([TOPIC], STUCK_S)


def test_every_reader_sees_the_same_before_between_and_after(whole, analyst, tmp_path):
    create(whole.bootstrap, TOPIC)
    path = table_path(str(whole.data_dir / "tables"), TOPIC)
    target, rounds, patience = str(tmp_path / "checkpoint"), 0, Patience()
    seen, streamed = list[object](), list[int]()
    while not merges(whole):
        assert patience.lasts(rounds)
        round_of(whole, rounds)
        rounds += 1
        if rounds % 8 in (1, 2):
            now = consumed(whole.bootstrap, TOPIC)
            assert now[: len(seen)] == seen
            assert len(now) == rounds * 30
            streamed += analyst.stream(path, target)
            assert sorted(streamed) == list(range(rounds * 30))
            seen = now
    assert len(load(path).files) < rounds
    found = f"SELECT count(*), count(DISTINCT partition, offset) FROM delta.`{path}`"
    assert analyst.ask(found) == [[rounds * 30] * 2]
    streamed += analyst.stream(path, target)
    assert sorted(streamed) == list(range(rounds * 30))
    now = consumed(whole.bootstrap, TOPIC)
    assert now[: len(seen)] == seen
    assert len(now) == rounds * 30
    history = analyst.ask(f"DESCRIBE HISTORY delta.`{path}`")
    assert "LAKELOG MERGE" in [row[4] for row in history]
    analyst.ask(f"DELETE FROM delta.`{path}` WHERE offset = 33")
    assert analyst.ask(found) == [[rounds * 30 - 1] * 2]
    whole.end()
    assert check_data_directory(whole.data_dir).problems == []
