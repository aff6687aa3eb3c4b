"""An analyst's Spark: a process of its own that knows nothing of a running Lakelog.

``python -m tests.support.spark_reader`` reads a number and a SQL statement a line, and
answers each with a line of that number and JSON: a list of rows, or ``{"error": ...}``.
``SparkReader`` talks to it. Whoever was interrupted while he waited for an answer does
not get it as the answer to his next question.
"""

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tests.support.patience import IDLE_S

STREAM = "STREAM "
"""What begins so is no SQL: the options of a stream as JSON."""
PROGRAM = (sys.executable, "-m", "tests.support.spark_reader")


class SparkReader:
    """A session that answers SQL; tables are named ``delta.`path```."""

    def __init__(self, program: Sequence[str] = PROGRAM) -> None:
        self._asked = 0
        self._process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, sql: str) -> list[list[Any]]:
        """Rows; binaries are bytes, timestamps milliseconds since 1970."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked += 1
        self._process.stdin.write(f"{self._asked} {' '.join(sql.split())}\n")
        self._process.stdin.flush()
        start = f"answer {self._asked} "
        while True:
            line = self._process.stdout.readline()
            assert line, "Spark is gone"
            if line.startswith(start):
                break
        answer = json.loads(line.removeprefix(start), object_hook=_decoded)
        assert isinstance(answer, list), answer
        return answer

    def stream(self, path: str, checkpoint: str, **options: str) -> list[int]:
        """Offsets that a stream finds in a table, from where ``checkpoint`` says, to
        the table's end. Raises AssertionError with what ended it."""
        asked = {"path": path, "checkpoint": checkpoint, "options": options}
        return [offset for (offset,) in self.ask(STREAM + json.dumps(asked))]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(IDLE_S)
        self._process.stdout.close()


def _decoded(found: dict[str, Any]) -> Any:
    return base64.b64decode(found["bytes"]) if found.keys() == {"bytes"} else found


def _encoded(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return round(value.astimezone().timestamp() * 1000)
    if hasattr(value, "asDict"):
        return {key: _encoded(part) for key, part in value.asDict().items()}
    if isinstance(value, list):
        return [_encoded(part) for part in value]
    return value


def _streamed(
    session: Any, path: str, checkpoint: str, options: dict[str, str]
) -> list[list[int]]:
    found: list[list[int]] = []

    def take(batch: Any, number: int) -> None:
        found.extend([row.offset] for row in batch.select("offset").collect())

    stream = session.readStream.format("delta").options(**options).load(path)
    query = (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


def _serve() -> None:
    from jobs.session import make_session

    session = make_session("local[2]", "an analyst", delta=True)
    for line in sys.stdin:
        number, _, sql = line.partition(" ")
        answer: Any
        try:
            if sql.startswith(STREAM):
                answer = _streamed(session, **json.loads(sql.removeprefix(STREAM)))
            else:
                rows = session.sql(sql).collect()
                answer = [[_encoded(value) for value in row] for row in rows]
        except Exception as error:
            answer = {"error": str(error)[:500]}
        print(f"answer {number} {json.dumps(answer, default=str)}", flush=True)
    session.stop()


if __name__ == "__main__":
    _serve()
