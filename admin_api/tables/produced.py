"""What a topic got since its broker began, to be compared with what its table holds."""

import asyncio
from contextlib import suppress

from admin_api.internal import Internal
from admin_api.problems import Problem
from admin_api.status import StatusFiles
from admin_api.tables.schemas import Produced
from admin_api.tables.survey import BROKER_TIMEOUT_S


async def produced(
    internal: Internal, status: StatusFiles, topic: str
) -> Produced | None:
    """As the broker's own endpoint says; None where it does not within three
    seconds, or since when it counts is not known."""
    broker = await asyncio.to_thread(status.broker)
    if broker is None:
        return None
    needs = ("topic", "records_in", "bytes_in")
    with suppress(Problem, TimeoutError):
        async with asyncio.timeout(BROKER_TIMEOUT_S):
            rows = await internal.rows("topics", needs)
        found = [row for row in rows if row["topic"] == topic]
        return Produced(
            records=sum(row["records_in"] for row in found),
            bytes=sum(row["bytes_in"] for row in found),
            since_ms=broker.started_ms,
        )
    return None
