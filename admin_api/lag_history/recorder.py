"""Asks the broker for all groups' lags once a minute and keeps them for six hours.

Groups are asked one after another, by name, and no more than the ring has room for;
what is left out is counted, and so is a group that cannot be asked for. A broker that
does not answer leaves a gap; the plane's own end ends the recorder.
"""

import asyncio
from itertools import islice
from typing import Final

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import OffsetSpec

from admin_api.kafka import Kafka
from admin_api.lag_history.ring import Key, LagRing, LeftOut
from broker.clock import Clock

INTERVAL_S: Final = 60.0
SLOTS: Final = 360
SERIES_MAX: Final = 4_000
"""Each takes 8 bytes a slot: 12 MB together."""
GROUPS_MAX: Final = 500

log = structlog.get_logger("lakelog.admin")


class LagRecorder:
    """Fills a ring."""

    def __init__(self, kafka: Kafka, clock: Clock) -> None:
        self._kafka, self._clock = kafka, clock
        self.ring = LagRing(SLOTS, SERIES_MAX)
        self.left_out = LeftOut()

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            try:
                await self.record()
            except KafkaException as error:
                log.debug("no lags were recorded", code=error.args[0].code())
            except Exception:
                log.exception("no lags were recorded")
            await asyncio.sleep(INTERVAL_S)

    async def record(self) -> None:
        """Keep the lags of now. Raises KafkaException, and then keeps none."""
        committed: dict[Key, int] = {}
        groups, asked = sorted(await self._kafka.groups()), 0
        for group in groups[:GROUPS_MAX]:
            offsets = await self._kafka.committed_or_none(group)
            if offsets is None:
                continue
            committed |= {(group, *own): offset for own, offset in offsets.items()}
            asked += 1
            if len(committed) > SERIES_MAX:
                break
        beyond = max(0, len(committed) - SERIES_MAX)
        committed = dict(islice(committed.items(), SERIES_MAX))
        wanted = {key[1:] for key in committed}
        ends = await self._kafka.offsets(wanted, OffsetSpec.latest())
        lags = {
            key: max(0, ends[key[1:]] - offset)
            for key, offset in committed.items()
            if key[1:] in ends
        }
        self.ring.add(self._clock.now_ms(), lags)
        self.left_out = LeftOut(len(groups) - asked, beyond + self.ring.left_out)
