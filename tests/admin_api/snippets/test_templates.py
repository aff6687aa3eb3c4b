"""The code is run as it is, on a real table: all five pieces of it.

Spark in a process of its own, whose session has the Delta jars; the others here.
"""

import ast
import json
import subprocess
import sys

import pytest

from admin_api.snippets.templates import snippets
from tests.support.patience import STUCK_S
from tests.support.tables import Writer

ODD = "o'r d\"e`r\\s {x}"
RUN = """
import json, sys
from jobs.session import make_session
session = make_session("local[1]", "snippets", delta=True)
codes = json.load(sys.stdin)
found = {"spark-sql": [row.offset for row in session.sql(codes["spark-sql"]).collect()]}
names = {}
exec(codes["pyspark"], names)
found["pyspark"] = [row.offset for row in names["rows"].collect()]
print("FOUND", json.dumps(found))
session.stop()
"""


@pytest.fixture
def path(tmp_path):
    writer = Writer(str(tmp_path / "ware house"))
    writer.add(0, 0, 8)
    writer.add(1, 8, 20)
    return writer.path


def codes_of(path):
    return {one.engine: one.code for one in snippets(path)}


def offsets_of(rows):
    """Whatever kind of rows an engine has."""
    if hasattr(rows, "fetchall"):
        return [row[1] for row in rows.fetchall()]
    return list(rows["offset"].to_pylist() if hasattr(rows["offset"], "to_pylist")
                else rows["offset"])  # fmt: skip


@pytest.mark.parametrize("engine", ["deltalake", "polars", "duckdb"])
def test_the_code_shows_the_last_records(path, engine, capsys):
    names = {}
    exec(codes_of(path)[engine], names)
    assert offsets_of(names["rows"]) == list(range(19, 9, -1))
    assert "19" in capsys.readouterr().out


@pytest.mark.spark
def test_spark_shows_the_same_by_sql_and_by_python(path):
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(codes_of(path)),
        text=True,
        capture_output=True,
        timeout=STUCK_S,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert said, done.stderr[-2000:]
    wanted = list(range(19, 9, -1))
    found = json.loads(said[0].removeprefix("FOUND "))
    assert found == {"spark-sql": wanted, "pyspark": wanted}


def test_whatever_is_in_a_path_is_text_in_the_code():
    for one in snippets(ODD):
        if one.language == "python":
            constants = [
                node.value
                for node in ast.walk(ast.parse(one.code))
                if isinstance(node, ast.Constant)
            ]
            assert ODD in constants
    assert ODD.replace("`", "``") in codes_of(ODD)["spark-sql"]
