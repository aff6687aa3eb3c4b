"""Statements are taken apart; what changes a table runs only where that was said."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from admin_api.metastore.server import beside
from jobs.extent import Extents
from jobs.sql import (
    Answer,
    OnlyRead,
    Writes,
    makes_by_name,
    run,
    sql_session,
    statements,
    tables_of,
)
from tests.support.laked import id_of, make_table
from tests.support.patience import wait_until
from tests.support.saying import say

TOPICS = {"flights": "flights", "~orders": "Orders"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\n SELECT 2 ;;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', \"a;b\", `c;d`;x", ["SELECT ';', \"a;b\", `c;d`", "x"]),
        (r"SELECT 'it\'s;'; x", [r"SELECT 'it\'s;'", "x"]),
        (r"SELECT `\`; x", [r"SELECT `\`", "x"]),
        ("SELECT 1 -- a;b\n; x", ["SELECT 1 -- a;b", "x"]),
        ("SELECT /* a;b */ 1; x", ["SELECT /* a;b */ 1", "x"]),
        ("SELECT 5-3/1; x", ["SELECT 5-3/1", "x"]),
        ("SELECT 'open; x", ["SELECT 'open; x"]),
        ("SELECT 1 -- open; x", ["SELECT 1 -- open; x"]),
        ("", []),
    ],
)
def test_statements_end_outside_of_quotes_and_comments(
    text: str, found: list[str]
) -> None:
    assert statements(text) == found


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir = tmp_path_factory.mktemp("sql") / "data"
    for number, topic in enumerate(TOPICS.values()):
        make_table(data_dir, topic, topic_id=id_of(number)).add(0, 0, 10)
    (data_dir / "wal").mkdir()
    return data_dir


@pytest.fixture(scope="module")
def session(data_dir: Path) -> Iterator[Any]:
    aside = str(data_dir.parent / "aside")
    with beside(data_dir) as address, sql_session(address, aside) as session:
        yield session


@pytest.fixture
def answer(session: Any, data_dir: Path) -> Any:
    def answers(statement: str, hold_ms: int | None = None) -> Answer:
        return run(session, statement, data_dir, lambda: TOPICS, hold_ms)

    return answers


READS = [
    "SELECT 1",
    "WITH a AS (SELECT 1) SELECT * FROM a",
    "VALUES 1",
    "TABLE lakelog.flights",
    "SELECT 'DELETE FROM x; InsertIntoStatement'",
    "SHOW TABLES IN lakelog",
    "DESCRIBE HISTORY lakelog.flights",
    "DESCRIBE DETAIL lakelog.flights",
    "DESCRIBE lakelog.flights",
    "SHOW TBLPROPERTIES lakelog.flights",
    "EXPLAIN DELETE FROM lakelog.flights",
    "SET spark.sql.ansi.enabled = true",
    "USE lakelog",
    "CREATE TEMPORARY VIEW v AS SELECT 1",
]
WRITES = [
    "DELETE FROM lakelog.flights",
    "UPDATE lakelog.flights SET topic = 'x'",
    "MERGE INTO lakelog.flights t USING lakelog.`~orders` s ON t.offset = s.offset "
    "WHEN MATCHED THEN DELETE",
    "INSERT INTO lakelog.flights VALUES (1)",
    "INSERT OVERWRITE lakelog.flights VALUES (1)",
    "WITH a AS (SELECT 1) INSERT INTO lakelog.flights SELECT * FROM a",
    "FROM lakelog.flights INSERT INTO lakelog.`~orders` SELECT *",
    "OPTIMIZE lakelog.flights",
    "VACUUM lakelog.flights",
    "RESTORE TABLE lakelog.flights TO VERSION AS OF 0",
    "ALTER TABLE lakelog.flights ADD COLUMN x INT",
    "ALTER TABLE lakelog.flights SET TBLPROPERTIES ('a' = 'b')",
    "DROP TABLE lakelog.flights",
    "CREATE OR REPLACE TABLE lakelog.flights (a INT) USING DELTA",
    "TRUNCATE TABLE lakelog.flights",
    "REORG TABLE lakelog.flights APPLY (PURGE)",
    "INSERT OVERWRITE DIRECTORY '/nowhere' USING parquet SELECT 1",
    "EXECUTE IMMEDIATE 'DELETE FROM lakelog.flights'",
    "INSERT INTO IDENTIFIER('lakelog.flights') SELECT 1",
    "WITH a AS (SELECT 1) INSERT INTO IDENTIFIER('lakelog.flights') SELECT * FROM a",
    "BEGIN DELETE FROM lakelog.flights; END",
]


@pytest.mark.spark
def test_what_reads_runs_and_what_writes_does_not_unless_that_was_said(
    answer: Any,
) -> None:
    for statement in READS:
        assert isinstance(answer(statement), Answer), statement
    for statement in WRITES:
        with pytest.raises(Writes, match="--write was not said"):
            pytest.fail(f"{statement}: {answer(statement)}")
    assert answer("SELECT count(*) AS n FROM lakelog.flights") == (["n"], [(10,)])


@pytest.mark.spark
def test_the_tables_that_a_statement_names_are_known(session: Any) -> None:
    parser = session._jsparkSession.sessionState().sqlParser()

    def named(statement: str, current: str = "default") -> list[str]:
        return tables_of(parser.parsePlan(statement), current)

    assert named("DELETE FROM lakelog.Flights WHERE offset < 3") == ["flights"]
    assert named(WRITES[2]) == ["flights", "~orders"]
    assert named("OPTIMIZE lakelog.`a.b`") == ["a.b"]
    assert named("DELETE FROM spark_catalog.lakelog.flights") == ["flights"]
    assert named("DELETE FROM delta.`/x`") == []
    assert named("DELETE FROM flights") == []
    assert named("DELETE FROM flights", current="lakelog") == ["flights"]
    assert named("DELETE FROM other.flights", current="lakelog") == []


CREATED = [
    "CREATE TABLE lakelog.later USING delta AS SELECT * FROM lakelog.flights",
    "CREATE TABLE IF NOT EXISTS lakelog.later (a INT) USING delta",
    "CREATE OR REPLACE TABLE lakelog.later (a INT) USING delta",
    "CREATE TABLE later (a INT) USING delta",
    "CREATE TABLE lakelog.later USING parquet AS SELECT 1 AS a",
    "CREATE TABLE lakelog.later (a INT)",
    "CREATE TABLE lakelog.later SHALLOW CLONE lakelog.flights",
    "CREATE TABLE lakelog.later LIKE lakelog.flights",
]
IDENTIFIER = "IDENTIFIER('lakelog.' || 'flights')"


@pytest.mark.spark
@pytest.mark.parametrize("statement", CREATED)
def test_what_a_spark_would_create_by_name_is_refused_and_leaves_nothing(
    session: Any, data_dir: Path, statement: str
) -> None:
    with pytest.raises(Exception, match=r"catalog.of.lakelog.is.only.read"):
        session.sql(statement)
    assert sorted(os.listdir(data_dir / "tables")) == ["flights", "~orders"]


@pytest.mark.spark
def test_a_table_by_name_is_neither_created_nor_replaced(
    answer: Any, data_dir: Path, tmp_path: Path
) -> None:
    entries = os.listdir(data_dir / "tables" / "flights" / "_delta_log")
    replaced = [
        "CREATE OR REPLACE TABLE lakelog.flights (a INT) USING delta",
        "REPLACE TABLE spark_catalog.Lakelog.flights USING delta AS SELECT 1 AS a",
        "CREATE OR REPLACE TABLE lakelog.flights SHALLOW CLONE lakelog.`~orders`",
        f"REPLACE TABLE {IDENTIFIER} USING delta AS SELECT 1 AS a",
    ]
    for statement in [*CREATED[:7], *replaced]:
        with pytest.raises(OnlyRead, match="comes with the first records"):
            answer(statement, 60_000)
    assert os.listdir(data_dir / "tables" / "flights" / "_delta_log") == entries
    answer(f"CREATE TABLE delta.`{tmp_path}/mine` USING delta AS SELECT 1 AS a", 60_000)
    assert answer(f"SELECT a FROM delta.`{tmp_path}/mine`").rows == [(1,)]


@pytest.mark.spark
def test_what_may_replace_any_table_is_not_run(answer: Any, data_dir: Path) -> None:
    entries = os.listdir(data_dir / "tables" / "flights" / "_delta_log")
    with pytest.raises(OnlyRead, match="say the name itself"):
        answer(f"CREATE OR REPLACE TABLE {IDENTIFIER} (a INT) USING delta", 60_000)
    assert os.listdir(data_dir / "tables" / "flights" / "_delta_log") == entries


@pytest.mark.spark
def test_a_clone_at_a_path_has_no_name(session: Any) -> None:
    parser = session._jsparkSession.sessionState().sqlParser()
    copied = "CREATE TABLE {} SHALLOW CLONE lakelog.flights"
    assert not makes_by_name(parser.parsePlan(copied.format("delta.`/x`")))
    assert makes_by_name(parser.parsePlan(copied.format("copy")))


@pytest.mark.spark
def test_a_table_is_held_while_it_is_changed(answer: Any, data_dir: Path) -> None:
    changed: list[Answer] = []
    say(data_dir, state="running")
    statement = "DELETE FROM lakelog.`~orders` WHERE offset = 3"
    thread = threading.Thread(target=lambda: changed.append(answer(statement, 60_000)))
    thread.start()
    with closing(Extents(data_dir)) as extents:

        def until() -> int | None:
            return extents.of(["Orders"])[0].held_until_ms

        wait_until(until)
        time.sleep(0.5)
        assert not changed, "the compactor has not said that it stands back"
        say(data_dir, state="running", holds={"Orders": until()})
        thread.join()
        assert changed == [(["num_affected_rows"], [(1,)])]
        assert until() is None
    rows = answer("SELECT count(*) AS n FROM lakelog.`~orders`").rows
    assert rows == [(9,)]


@pytest.mark.spark
def test_optimize_tells_what_it_did(answer: Any, data_dir: Path) -> None:
    say(data_dir, state="stopped")
    found = answer("OPTIMIZE lakelog.flights", 60_000)
    [(path, metrics)] = found.rows
    assert (found.columns, path.endswith("/flights")) == (["path", "metrics"], True)
    assert metrics["numFilesAdded"] == metrics["filesAdded"]["totalFiles"]
    assert answer("SELECT count(*) AS n FROM lakelog.flights").rows == [(10,)]
