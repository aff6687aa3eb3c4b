"""The code is run as it is, on a real table: all five pieces of it.

Spark in a process of its own, whose session has the Delta jars; the others here.
"""

import ast
import json
import subprocess
import sys

import pytest
from deltalake.exceptions import DeltaProtocolError

from admin_api.snippets.templates import snippets
from lakehouse.log.delta_log import load
from tests.support.bitmaps import delete_rows
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
def writer(tmp_path):
    writer = Writer(str(tmp_path / "ware house"))
    writer.add(0, 0, 8)
    writer.add(1, 8, 20)
    return writer


@pytest.fixture
def path(writer):
    return writer.path


@pytest.fixture
def deleted_in(writer):
    """The table after an owner's DELETE of offset 15, which left a vector."""
    paths = {one.partition: one.path for one in load(writer.path).files.values()}
    delete_rows(writer, {paths[1]: [7]})
    return writer.path


LEFT = [19, 18, 17, 16, 14, 13, 12, 11, 10, 9]


def codes_of(path, features=()):
    return {one.engine: one.code for one in snippets(path, features)}


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


@pytest.mark.parametrize("engine", ["deltalake", "polars", "duckdb"])
def test_the_code_reads_a_table_with_deletion_vectors(deleted_in, engine):
    features = load(deleted_in).protocol.reader_features
    names = {}
    exec(codes_of(deleted_in, features)[engine], names)
    assert offsets_of(names["rows"]) == LEFT


@pytest.mark.parametrize("engine", ["deltalake", "duckdb"])
def test_the_shorter_code_would_refuse_such_a_table(deleted_in, engine):
    """When it does not any more, one code is enough."""
    with pytest.raises(DeltaProtocolError, match="deletionVectors"):
        exec(codes_of(deleted_in)[engine], {})


def test_what_readers_have_to_know_is_said_where_it_matters():
    notes = {one.engine: one.note for one in snippets("/t", ["deletionVectors"])}
    assert [engine for engine, note in notes.items() if note] == [
        "deltalake",
        "polars",
        "duckdb",
    ]
    assert "to_pyarrow_dataset" in notes["deltalake"]
    assert {one.note for one in snippets("/t", ())} == {None}
    others = snippets("/t", ["columnMapping", "timestampNtz"])
    assert all("columnMapping, timestampNtz" in one.note for one in others)


@pytest.mark.spark
def test_spark_shows_the_same_by_sql_and_by_python(deleted_in):
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(codes_of(deleted_in, ["deletionVectors"])),
        text=True,
        capture_output=True,
        timeout=STUCK_S,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert said, done.stderr[-2000:]
    found = json.loads(said[0].removeprefix("FOUND "))
    assert found == {"spark-sql": LEFT, "pyspark": LEFT}


def test_whatever_is_in_a_path_is_text_in_the_code():
    for one in [*snippets(ODD), *snippets(ODD, ["deletionVectors"])]:
        if one.language == "python":
            constants = [
                node.value
                for node in ast.walk(ast.parse(one.code))
                if isinstance(node, ast.Constant)
            ]
            assert ODD in constants
    assert ODD.replace("`", "``") in codes_of(ODD)["spark-sql"]
