"""The one place that makes a Spark session.

The problem: Spark's defaults are those of a cluster. On one machine they cost seconds
(fifty tasks to read a Delta log), open a web server, write progress bars over the
output, take another Python for the workers than the one that runs, and time zones from
wherever the machine stands.

The idea: every job takes its session from here. The compactor needs no Delta jars (it
commits through `lakehouse.log.commit`), so it starts without resolving any; who wants
``format("delta")`` or SQL over tables asks for ``delta=True`` and pays for it.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from jobs.java import JAVA_WANTED, java_found

IVY_SETTINGS: Final = Path(__file__).with_name("ivysettings.xml")
DELTA_PACKAGE: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"

_ALWAYS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.daemon.module": "jobs.daemon",
    # A worker that is killed may be tried again: what it wrote is nobody's yet.
    "spark.task.maxFailures": "2",
    "spark.log.level": "ERROR",
    # Java would begin with a 64th of the machine's memory, most of it for nothing.
    "spark.driver.extraJavaOptions": (
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms64m"
    ),
}
_DELTA: Final = {
    "spark.jars.ivySettings": str(IVY_SETTINGS),
    "spark.jars.packages": DELTA_PACKAGE,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": (
        "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    ),
    "spark.databricks.delta.snapshotPartitions": "1",
    # In so many tasks VACUUM lists a table's directories; Spark's default is 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.parquet.block.row.count.limit": "10000",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
}
JVM_ENDS_S: Final = 3.0
_QUIET: Final = Path(__file__).with_name("log4j2.properties")


def make_session(
    master: str,
    app: str,
    delta: bool = False,
    more: Mapping[str, str] | None = None,
    python: Path | None = None,
) -> Any:
    """A SparkSession on ``master``; blocks for some seconds.

    With ``delta`` the Delta jars are resolved (once from Maven Central, then from Ivy's
    cache) and the session understands Delta tables. ``more``: options beside ours;
    ``python``: what workers run, where that is not the Python that runs here. Raises
    SparkMissing.
    """
    from pyspark.sql import SparkSession

    if not java_found():
        raise SparkMissing(JAVA_WANTED)
    os.environ["PYSPARK_PYTHON"] = str(python or sys.executable)
    # Workers load modules of ours, and none of what lies where we were started.
    os.environ["PYTHONSAFEPATH"] = "1"
    # Ivy and Spark greet on standard error before any setting of theirs is read.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(app)
    for key, value in (session_options(delta) | dict(more or {})).items():
        builder = builder.config(key, value)
    with _standard_output_kept(), _starting(), _no_jvm_left():
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    return session


class SparkMissing(Exception):
    """Spark cannot be started; why, in a sentence."""


class SparkEnded(SparkMissing):
    """Its JVM ended before it could be talked to, and said why on standard error."""


@contextmanager
def _starting() -> Iterator[None]:
    """Raises SparkMissing if there is no program to start, and SparkEnded if the JVM
    ends before it can be talked to."""
    from pyspark.errors import PySparkRuntimeError

    try:
        yield
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SparkEnded(
            "Spark did not start: what it wrote above says why (it takes what it needs "
            "for Delta from Maven Central the first time)"
        ) from None
    except OSError as error:
        home = os.environ.get("SPARK_HOME")
        where = f", and SPARK_HOME is {home}" if home else ""
        raise SparkMissing(f"Spark cannot be started: {error}{where}") from None


@contextmanager
def _no_jvm_left() -> Iterator[None]:
    """Ends the JVM that is started inside if there is an error or ctrl-C: until it has
    said where it listens pyspark hands it to nobody, and it would stay for good."""
    from pyspark import SparkContext, java_gateway

    started: list[subprocess.Popen[bytes]] = []

    class Remembered(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            with _ctrl_c_later():  # or nobody knows the number of what was forked
                super().__init__(*args, **options)
                started.append(self)

    java_gateway.Popen = Remembered
    try:
        yield
    except BaseException:
        for jvm in started:
            SparkContext._gateway = SparkContext._jvm = None
            jvm.terminate()
            _await_end(jvm)
        raise
    finally:
        java_gateway.Popen = subprocess.Popen


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Ctrl-C inside comes at its end. It comes to the main thread alone."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        for number in came[:1]:
            signal.raise_signal(number)


@contextmanager
def _standard_output_kept() -> Iterator[None]:
    """What is started inside writes to standard error instead of standard output.

    Ivy and the JVM talk there, and what a program prints is for its user to parse.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


class SparkSaid(Exception):
    """What Spark said of a statement, in its words."""


@contextmanager
def saying() -> Iterator[None]:
    """For who ends the session behind a statement: an error of pyspark asks the JVM for
    its own words, and fails when that is gone. Raises SparkSaid in its place."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise SparkSaid(str(error)) from None
    except Py4JJavaError as error:  # of a job: an expression that cannot be computed
        raise SparkSaid(_root_cause(error.java_exception)) from None


def _root_cause(error: Any) -> str:
    """What a Java exception says of its cause, in its own words; the JVM must live."""
    while (cause := error.getCause()) is not None:
        error = cause
    return str(error.getMessage() or error.toString())


def end_session(session: Any) -> None:
    """Stop Spark and wait for its JVM; blocks for some tenths of a second.

    It would end a second after this process does. The next session has a JVM of its
    own, which pyspark starts where it knows of none.
    """
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    with suppress(Exception):  # a JVM that is gone already says so in many ways
        session.stop()
    with suppress(Exception):
        gateway.shutdown()
    _await_end(gateway.proc)
    SparkContext._gateway = SparkContext._jvm = None


def _await_end(jvm: subprocess.Popen[bytes]) -> None:
    if jvm.stdin is not None:
        jvm.stdin.close()  # what it waits for
    try:
        jvm.wait(JVM_ENDS_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def session_options(delta: bool) -> dict[str, str]:
    """What `make_session` sets, for who builds a session of their own."""
    quiet = f"-Dlog4j2.configurationFile=file:{_QUIET}"
    options = _ALWAYS | (_DELTA if delta else {})
    java = options["spark.driver.extraJavaOptions"]
    return options | {"spark.driver.extraJavaOptions": f"{java} {quiet}"}
