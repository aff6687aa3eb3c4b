"""What only administrators before Kafka 4 ask, asked over raw frames: versions 0.

``table(bootstrap)`` asks what ``admin_requests`` asks of ACLs, tokens and directories,
and for markers of a transaction, in the version that Kafka 4 dropped.
"""

import time
from collections.abc import Iterator

from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.admin_corners import Asker, Case
from tests.support.admin_requests import NOWHERE, acls, directories, tokens
from tests.support.peer import batch_of
from tests.support.reached import telling


def markers(asker: Asker) -> Iterator[Case]:
    topic, _ = asker.create("marked")
    while asker.peer.produce(topic, batch_of(b"v"), 9).error_code:
        time.sleep(0.05)  # a Kafka may not lead yet what it says that it leads
    for commit in (True, False):
        for case, places in {
            "one": [(topic, [0])],
            "no partition": [(topic, [9])],
            "no topic": [(NOWHERE, [0])],
            "no partitions": [(topic, [])],
            "nothing": [],
        }.items():
            topics = [WritableTxnMarkerTopic(*one) for one in places]
            marker = WritableTxnMarker(7_000, 0, commit, topics)
            yield f"{case}, {commit}", WriteTxnMarkersRequest([marker]), (0,)


def at_version_0(cases: Iterator[Case]) -> Iterator[Case]:
    for case, request, _ in cases:
        yield case, request, (0,)


@telling
def table(bootstrap: str) -> list[str]:
    """What a broker answers, as sorted lines ``case   v0: answer``."""
    with Asker(bootstrap) as asker:
        for api in (markers, acls, tokens, directories):
            asker.play(api.__name__, at_version_0(api(asker)))
        return asker.table()
