"""Analysts say ``lakelog.TOPIC``: on the command line, in a Spark of their own, and
whether the broker runs or not."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.confluent import create, produce_all, read
from tests.support.patience import STUCK_S, wait_until
from tests.support.process import Part, Told, WholePart, lakelog, told

pytestmark = [
    pytest.mark.spark,
    pytest.mark.shared_out("tables", 4, whole=True),
]

TOPICS = ("flights", "Orders", "orders", "clicks.v1-eu")
SMALL = (
    "--conf", "spark.sql.shuffle.partitions=2",
    "--conf", "spark.databricks.delta.snapshotPartitions=1",
    "--conf", "spark.ui.enabled=false",
)  # fmt: skip
"""For this machine alone: nothing of it is about tables."""
RECORDS = [(b"k", b"v%d" % n, None, 0) for n in range(10)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholePart]:
    data_dir = tmp_path_factory.mktemp("a place") / "data"
    part = WholePart(data_dir, "lake.flush_ms=200")
    part.start()
    for topic in TOPICS:
        fill(part, topic)
    yield part
    part.end()


def fill(part: WholePart, topic: str) -> None:
    """A topic of ten records, all in its table."""
    create(part.bootstrap, topic, 1)
    produce_all(part.bootstrap, topic, RECORDS)
    lakelog("compact", topic, "--data-dir", str(part.data_dir), "--timeout", "600")


def offsets(part: WholePart, topic: str) -> list[int]:
    return [message.offset() for message in read(part.bootstrap, topic, 9)]


STATE = """
    SELECT topic, sum(rows) AS n, max(table_end) AS e, max(high_watermark) AS h,
           max(last_stable_offset) AS s, sum(lag_records) AS l, max(lag_seconds) AS a
    FROM lakelog.tables GROUP BY topic ORDER BY topic
"""


def answered(part: WholePart, statements: str) -> Told:
    done = told(
        "sql", "--write", "--format", "json", "-", "--data-dir", str(part.data_dir),
        stdin=statements.encode(),
    )  # fmt: skip
    assert done.code == 0, done
    return done


def by_topic(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row.pop("topic"): row for row in rows}


def test_the_command_line_reads_and_changes_tables_by_name(whole):
    statements = """
        SELECT count(*) AS n, max(CAST(value AS STRING)) AS v FROM lakelog.flights;
        SELECT DISTINCT topic FROM lakelog.orders; -- in small letters: that one
        SELECT DISTINCT topic FROM lakelog.`~orders`;
        SELECT count(*) AS n FROM lakelog.`clicks.v1-eu`
        WHERE value = ';' OR offset < 3;
        DELETE FROM lakelog.flights WHERE offset = 4;
    """
    done = answered(whole, statements + STATE)
    assert "note: topic Orders is lakelog.`~orders` in SQL" in done.errors
    found = [json.loads(line) for line in done.output.splitlines()]
    assert found[0] == [{"n": 10, "v": "v9"}]
    assert found[1:3] == [[{"topic": "orders"}], [{"topic": "Orders"}]]
    assert found[3] == [{"n": 3}]
    assert found[4] == [{"num_affected_rows": 1}]
    state = by_topic(found[5])
    while any(row.get("h") is None for row in state.values()):
        # A busy broker did not answer within seconds: its part is null then.
        state = by_topic(json.loads(answered(whole, STATE).output))
    assert set(state) == set(TOPICS)
    assert state["Orders"] == {"n": 10, "e": 10, "h": 10, "s": 10, "l": 0, "a": 0.0}
    assert state["flights"]["n"] == 9
    wait_until(lambda: 4 not in offsets(whole, "flights"))


def test_a_statement_that_is_wrong_is_answered_in_words(whole):
    place = ("--data-dir", str(whole.data_dir))
    done = told("sql", "SELECT * FROM lakelog.nowhere", *place)
    assert done.code == 1
    assert "`lakelog`.`nowhere` cannot be found" in done.errors
    assert "Traceback" not in done.errors + done.output
    copied = "EXECUTE IMMEDIATE 'CREATE TABLE lakelog.mine (a INT) USING delta'"
    done = told("sql", "--write", copied, *place)
    assert done.code == 1
    assert "catalog-of-lakelog-is-only-read" in done.errors
    assert "\tat " not in done.errors + done.output


class Analyst:
    """A Spark that has nothing of ours but the settings that were printed."""

    def __init__(self, program: str, folder: Path) -> None:
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": " ".join([*SMALL, "pyspark-shell"]),
        }
        environment.pop("PYTHONPATH", None)
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{program}\n{_LOOP}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, cwd=folder, env=environment,
        )  # fmt: skip

    def ask(self, sql: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(sql + "\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            if line.startswith("answer "):
                return json.loads(line.removeprefix("answer "))
        raise AssertionError("Spark is gone")

    def close(self) -> None:
        self._process.communicate(timeout=STUCK_S)


_LOOP = """
import json, sys
for line in sys.stdin:
    try:
        found = [list(row) for row in spark.sql(line).collect()]
    except Exception as error:
        found = str(error)
    print("answer " + json.dumps(found), flush=True)
spark.stop()
"""


@pytest.fixture
def metastore(whole: WholePart) -> Iterator[Part]:
    part = Part("metastore", whole.data_dir)
    part.arguments = ["--listen", "127.0.0.1:0"]
    part.start()
    yield part
    assert part.stop() == 0


def spark_sql(statement: str, arguments: Sequence[str], folder: Path) -> str:
    """What Spark's own shell prints."""
    beside = Path(sys.executable).parent
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PATH"] = f"{beside}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(beside / "spark-sql"), *SMALL, *arguments, "-e", statement],
        capture_output=True, text=True, timeout=STUCK_S, cwd=folder, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done
    return done.stdout


def test_a_spark_of_ones_own_knows_them_by_the_printed_settings(
    whole, metastore, tmp_path
):
    place = ("--metastore", metastore.facts["metastore"])
    program = lakelog("spark-conf", "--format", "python", *place)
    state = "SELECT rows, table_end, high_watermark, lag_records FROM lakelog.tables"
    state += " WHERE topic = 'later'"
    count = "SELECT count(*) FROM lakelog.later"
    with closing(Analyst(program, tmp_path)) as analyst:
        found = analyst.ask("SELECT count(*) FROM lakelog.Orders WHERE offset < 7")
        assert found == [[7]]
        described = analyst.ask("DESCRIBE lakelog.flights")
        assert ["topic", "string", "Name of the topic"] in described
        assert "cannot be found" in analyst.ask(count)
        copied = "CREATE TABLE lakelog.later USING delta AS TABLE lakelog.orders"
        assert "catalog-of-lakelog-is-only-read" in analyst.ask(copied)
        fill(whole, "later")
        assert analyst.ask(count) == [[10]]
        assert "only read" in analyst.ask("DROP TABLE lakelog.later")
        assert analyst.ask(state) == [[10, 10, 10, 0]]
        arguments = lakelog("spark-conf", "--format", "args", *place).split()
        assert spark_sql(count, arguments, tmp_path).split() == ["10"]
        whole.stop()
        assert analyst.ask(state) == [[10, 10, None, None]]
        assert analyst.ask(count) == [[10]]
