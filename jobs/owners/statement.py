"""``lakelog table T --sql ...``: a statement that no record gets in the way of.

The problem: a DELETE of minutes is refused by Delta as long as records come every few
seconds, and standing back for attempts that are seen is for short ones. The idea: Spark
is started first, then the table is held until the compactor says so, and then the
statement runs: nobody else commits meanwhile. The hold ends with the statement, by
itself if this program is killed.

The price: a Spark of its own for each statement (5 s, and 87 MB from Maven Central the
first time).
"""

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from broker.catalog.holds import OWNER
from broker.status.file import read
from broker.status.schema import CompactorStatus
from jobs.extent import Extents, NotInTime
from jobs.session import end_session, make_session, saying

POLL_S: Final = 0.1
SEEN_WITHIN_S: Final = 120.0


def run_statement(
    data_dir: Path, topic: str, statement: str, for_ms: int
) -> list[dict[str, Any]]:
    """The rows that a statement gives, once it is done. The table goes by the topic's
    name in it, with ``_`` for each character that is neither letter nor digit.

    Raises NoSuchTopic, NotInTime, SparkSaid.
    """
    with closing(Extents(data_dir)) as extents, tempfile.TemporaryDirectory() as aside:
        [found] = extents.of([topic])
        more = {"spark.sql.warehouse.dir": aside}
        session = make_session("local[*]", "lakelog table --sql", delta=True, more=more)
        try:
            name = re.sub(r"\W", "_", topic, flags=re.ASCII)
            # Spark would look for a path that is not absolute in its warehouse
            place = os.path.abspath(found.path).replace("'", r"\'")
            session.sql(f"CREATE TABLE `{name}` USING DELTA LOCATION '{place}'")
            with held(extents, data_dir, topic, for_ms), saying():
                return [row.asDict() for row in session.sql(statement).collect()]
        finally:
            end_session(session)


@contextmanager
def held(extents: Extents, data_dir: Path, topic: str, for_ms: int) -> Iterator[None]:
    """Nobody of ours commits to the topic's table inside, for so long."""
    by = f"sql-{os.getpid()}"
    try:
        hold(extents, data_dir, topic, for_ms, by)
        yield
    finally:
        extents.release(topic, by)


def hold(
    extents: Extents, data_dir: Path, topic: str, for_ms: int, by: str = OWNER
) -> None:
    """Hold a topic's table; when this returns nobody of ours commits to it any more:
    a round that was under way is over.

    Raises NoSuchTopic; and NotInTime, and it is held all the same.
    """
    _wait_until_seen(data_dir, topic, extents.hold(topic, for_ms, by))


def _wait_until_seen(data_dir: Path, topic: str, until_ms: int) -> None:
    """Until the compactor says that it stands back, or there is none. One that starts
    says so before it looks for the first time, and goes on saying it for a moment while
    a round may be under way that saw no hold."""
    deadline = time.monotonic() + SEEN_WITHIN_S
    while True:
        status = read(data_dir, CompactorStatus, time.time())
        if status is None or status.state == "stopped":
            return
        if status.holds.get(topic, 0) >= until_ms:
            return
        if time.monotonic() > deadline:
            raise NotInTime(
                f"the compactor did not stand back within {SEEN_WITHIN_S:g} s"
            )
        time.sleep(POLL_S)
