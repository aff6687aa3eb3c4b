"""What parts and commands need: a Spark that starts, and a place for their data."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from admin_api.internal import Internal
from admin_api.problems import Problem
from broker.cli import run
from broker.cli.failures import UserError
from broker.settings import Settings
from broker.status.unix_socket import OF_COMPACTOR
from tests.support.laked import make_table, make_topic
from tests.support.process import told


@pytest.mark.parametrize(
    "words",
    [
        ("sql", "SELECT 1"),
        ("table", "orders", "--sql", "SELECT 1"),
        ("erase", "orders", "--where", "offset = 1", "--dry-run"),
    ],
)
def test_a_command_that_needs_spark_says_what_that_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    make_table(tmp_path, "orders").add(0, 0, 10)
    (tmp_path / "wal").mkdir()
    done = told(*words, "--data-dir", str(tmp_path))
    said = "Java 17 or newer was not found: set JAVA_HOME, or put java on the PATH"
    assert (done.code, done.output, done.errors) == (1, "", f"lakelog: {said}\n")


@pytest.fixture
def java_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho no memory >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.delenv("SPARK_HOME", raising=False)


@pytest.mark.usefixtures("java_that_fails")
def test_a_command_whose_spark_does_not_start_says_so(tmp_path: Path) -> None:
    make_topic(tmp_path, "orders")
    done = told("sql", "SELECT 1", "--data-dir", str(tmp_path))
    assert (done.code, done.output) == (1, "")
    *above, last = done.errors.splitlines()
    assert "no memory" in above
    assert last.startswith("lakelog: Spark did not start: what it wrote above says why")
    assert "Traceback" not in done.errors


@pytest.mark.usefixtures("java_that_fails")
def test_a_compactor_whose_spark_does_not_start_says_where_that_is_said(
    tmp_path: Path,
) -> None:
    done = told("compactor", "--data-dir", str(tmp_path))
    said = tmp_path / "run" / "spark.log"
    assert (done.code, done.output) == (1, "")
    last = done.errors.splitlines()[-1]
    assert last == f"lakelog: Spark did not start: {said} says why"
    assert "no memory" in said.read_text()


@pytest.mark.usefixtures("java_that_fails")
def test_a_compactor_where_no_spark_is_says_so_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", "/nowhere")
    done = told("compactor", "--data-dir", str(tmp_path))
    assert (done.code, done.output) == (1, "")
    last = done.errors.splitlines()[-1]
    assert last.startswith("lakelog: Spark cannot be started: ")
    assert last.endswith(", and SPARK_HOME is /nowhere")
    assert "Traceback" not in done.errors


def test_a_compactor_without_a_place_for_its_data_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "java_found", lambda: True)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file: Not a directory"):
        run.compactor(tmp_path / "file")


def test_a_compactor_answers_the_plane_while_it_runs(tmp_path):
    (tmp_path / "run").mkdir()
    asked = Internal(tmp_path, OF_COMPACTOR, "compactor")
    with run._internal(Settings(data_dir=tmp_path)):
        names = [row["name"] for row in asyncio.run(asked.rows("loggers"))]
        assert names == ["lakelog", "lakelog.compactor"]
    with pytest.raises(Problem, match="compactor"):
        asyncio.run(asked.rows("loggers"))


def test_without_its_endpoint_a_compactor_works_all_the_same(tmp_path):
    with capture_logs() as events, run._internal(Settings(data_dir=tmp_path)):
        pass
    [event] = events
    assert event["event"] == "there is no internal endpoint"


def test_kafka_and_the_plane_at_one_place_are_refused_before_anything_starts(tmp_path):
    place = "127.0.0.1:39899"
    with pytest.raises(UserError, match="cannot be both --listener and --admin"):
        run.up(tmp_path / "data", listener=place, admin=place, no_compactor=True)
    assert not (tmp_path / "data").exists()
