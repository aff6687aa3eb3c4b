"""Sessions are made in one place, with what this product relies on."""

import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from pyspark import SparkContext, java_gateway
from pyspark.java_gateway import launch_gateway

from jobs import session
from jobs.session import (
    DELTA_PACKAGE,
    IVY_SETTINGS,
    SparkMissing,
    SparkSaid,
    end_session,
    make_session,
    saying,
    session_options,
)
from tests.support.patience import IDLE_S


def test_without_delta_nothing_is_resolved() -> None:
    assert not any("jars" in key for key in session_options(delta=False))


def test_with_delta_only_maven_central_is_asked() -> None:
    options = session_options(delta=True)
    assert options["spark.jars.packages"] == DELTA_PACKAGE
    assert options["spark.jars.ivySettings"] == str(IVY_SETTINGS)
    resolvers = ElementTree.parse(IVY_SETTINGS).getroot().find("resolvers")
    assert resolvers is not None
    assert [resolver.attrib["name"] for resolver in resolvers] == ["central"]


def test_sessions_are_quiet_and_in_utc() -> None:
    options = session_options(delta=False)
    assert options["spark.ui.enabled"] == "false"
    assert options["spark.ui.showConsoleProgress"] == "false"
    assert options["spark.sql.session.timeZone"] == "UTC"


def test_a_log_is_read_and_a_table_listed_in_tasks_for_one_machine() -> None:
    """Spark's own 50 and 10,000 are minutes of tasks that have nothing to do."""
    options = session_options(delta=True)
    assert int(options["spark.databricks.delta.snapshotPartitions"]) == 1
    listing = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    assert int(options[listing]) <= 64


def test_where_no_spark_is_that_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with (
        pytest.raises(SparkMissing, match="Spark cannot be started: ") as told,
        session._starting(),
    ):
        launch_gateway()
    assert "bin/spark-submit" in str(told.value)
    assert str(told.value).endswith(f", and SPARK_HOME is {tmp_path}")


NEVER_READY = """#!/bin/sh
echo $$ > "$SPARK_HOME/pid"
[ "$IS_EARLY" ] || kill -INT $PPID
exec sleep 600
"""
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us
"""
INTERRUPTED_AT_THE_FORK = """
import os, pathlib, subprocess
fork = subprocess._fork_exec
def interrupted(*of):
    number = fork(*of)
    pathlib.Path(os.environ["SPARK_HOME"], "pid").write_text(str(number))
    signal.raise_signal(signal.SIGINT)
    return number
subprocess._fork_exec = interrupted
"""
STARTING = """
from jobs.session import make_session
make_session("local[1]", "interrupted")
"""


@pytest.mark.parametrize("before", ["", INTERRUPTED_AT_THE_FORK], ids=["late", "early"])
def test_ctrl_c_before_a_jvm_can_be_talked_to_leaves_none(
    tmp_path: Path, before: str
) -> None:
    for name, text in (("spark-submit", NEVER_READY), ("java", "#!/bin/sh\n")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    place = {"SPARK_HOME": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    place["IS_EARLY"] = before
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTIBLE + before + STARTING],
        env=os.environ | place, stderr=subprocess.DEVNULL, timeout=IDLE_S,
    )  # fmt: skip
    assert done.returncode == -signal.SIGINT
    jvm = int((tmp_path / "pid").read_text())
    try:
        assert not psutil.pid_exists(jvm)
    finally:
        with suppress(ProcessLookupError):
            os.kill(jvm, signal.SIGKILL)


def test_after_an_error_at_the_start_another_session_has_a_jvm_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_jvm", None)

    def fails() -> None:
        program = [sys.executable, "-c", "input()"]
        jvm = java_gateway.Popen(program, stdin=subprocess.PIPE)
        SparkContext._gateway = SimpleNamespace(proc=jvm)
        raise RuntimeError

    with pytest.raises(RuntimeError), session._no_jvm_left():
        fails()
    assert SparkContext._gateway is None
    assert java_gateway.Popen is subprocess.Popen


PROGRAM = """
from jobs.session import end_session, make_session
from pyspark import SparkContext
for app in ("short", "another"):
    session = make_session("local[1]", app, delta=False)
    assert session.range(3).count() == 3
    print(SparkContext._gateway.proc.pid, flush=True)
    end_session(session)
    print("ended", flush=True)
input()
"""


@pytest.mark.spark
def test_a_session_that_ended_has_left_no_jvm_and_another_can_be_made() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout is not None
    for _ in range(2):
        jvm = int(program.stdout.readline())
        assert program.stdout.readline() == "ended\n"
        assert not psutil.pid_exists(jvm)
    program.communicate("\n", timeout=IDLE_S)
    assert program.returncode == 0


def ended(monkeypatch: pytest.MonkeyPatch, program: str, patience_s: float) -> int:
    """How a process ends that stands for Spark's JVM."""
    jvm = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    gateway = SimpleNamespace(proc=jvm, shutdown=lambda: None)
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(session, "JVM_ENDS_S", patience_s)
    end_session(SimpleNamespace(stop=lambda: None))
    return jvm.returncode


def test_a_jvm_ends_when_nobody_talks_to_it_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ended(monkeypatch, "import sys; sys.stdin.read()", IDLE_S) == 0


def test_a_jvm_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    forever = "import time\nwhile True: time.sleep(1)"
    assert ended(monkeypatch, forever, 0.01) == -signal.SIGKILL


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "said"),
    [("SELEKT 1", "SELEKT"), ("SELECT 1 / (id - id) FROM range(3)", "DIVIDE_BY_ZERO")],
)
def test_what_spark_says_is_known_when_its_session_is_gone(
    statement: str, said: str
) -> None:
    made = make_session("local[1]", "saying")

    def asked() -> None:
        try:
            with saying():
                list(made.sql(statement).toLocalIterator())
        finally:
            end_session(made)

    with pytest.raises(SparkSaid, match=said):
        asked()
