"""What is printed of answers, and for Sparks of others."""

import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from broker.cli.sql import AnswerFormat, ConfFormat, conf_text, show
from jobs.sql import Answer
from tests.support.laked import id_of, make_table, make_topic
from tests.support.patience import IDLE_S
from tests.support.process import told

ANSWER = Answer(
    ["a", "b", "c"],
    [
        (1, b"text", datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)),
        (None, b"\xff\x00", [{"key": "k", "value": b"v"}]),
    ],
)
OPTIONS = {"spark.a": "b:c", "spark.d": "e f"}


def printed(capsys: pytest.CaptureFixture[str], how: AnswerFormat) -> list[str]:
    show(ANSWER, how)
    return capsys.readouterr().out.splitlines()


def test_an_answer_is_a_table_for_people(capsys):
    assert printed(capsys, AnswerFormat.TABLE) == [
        "a  b       c",
        "1  text    2026-01-02T03:04:05.678000+00:00",
        '-  0xff00  [{"key": "k", "value": "v"}]',
    ]


def test_an_answer_is_csv_where_null_is_empty(capsys):
    assert printed(capsys, AnswerFormat.CSV) == [
        "a,b,c",
        "1,text,2026-01-02T03:04:05.678000+00:00",
        ',0xff00,"[{""key"": ""k"", ""value"": ""v""}]"',
    ]


def test_an_answer_is_an_array_of_objects_for_programs(capsys):
    [line] = printed(capsys, AnswerFormat.JSON)
    assert line == (
        '[{"a": 1, "b": "text", "c": "2026-01-02T03:04:05.678000+00:00"}, '
        '{"a": null, "b": {"base64": "/wA="}, "c": [{"key": "k", "value": "v"}]}]'
    )


@pytest.mark.parametrize("how", AnswerFormat)
def test_what_gives_nothing_prints_nothing(capsys, how):
    show(Answer([], []), how)
    assert capsys.readouterr().out == ""


def test_settings_for_a_file_a_command_line_and_a_program():
    assert conf_text(ConfFormat.PROPERTIES, OPTIONS) == "spark.a b:c\nspark.d e f"
    words = shlex.split(conf_text(ConfFormat.ARGS, OPTIONS))
    assert words == ["--conf", "spark.a=b:c", "--conf", "spark.d=e f"]
    program = conf_text(ConfFormat.PYTHON, OPTIONS)
    compile(program, "session", "exec")
    assert "    .config('spark.d', 'e f')\n" in program


def test_tables_are_registered_elsewhere_by_statements(tmp_path: Path) -> None:
    data_dir = tmp_path / "it's"
    for number, topic in enumerate(["flights", "Orders", "orders"]):
        make_table(data_dir, topic, topic_id=id_of(number))
    make_topic(data_dir, "empty", topic_id=id_of(7))
    done = told("spark-conf", "--format", "sql", "--data-dir", str(data_dir))
    assert (done.code, done.errors) == (
        0, "note: topic Orders is lakelog.`~orders` in SQL\n",
    )  # fmt: skip
    place = str(data_dir / "tables").replace("'", "\\'")
    lines = [
        f"CREATE TABLE IF NOT EXISTS lakelog.`{name}` USING DELTA "
        f"LOCATION '{place}/{name}';"
        for name in ("flights", "orders", "~orders")
    ]
    assert done.output.splitlines() == [
        "CREATE DATABASE IF NOT EXISTS lakelog;",
        *lines,
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["sql", "SELECT 1"],
        ["metastore"],
        ["spark-conf"],
        ["spark-conf", "--format", "sql"],
    ],
)
def test_a_directory_that_is_none_of_ours_is_told(
    tmp_path: Path, words: list[str]
) -> None:
    done = told(*words, "--data-dir", str(tmp_path))
    assert (done.code, done.output) == (1, "")
    assert "is not a data directory of Lakelog" in done.errors


def test_settings_for_a_metastore_elsewhere_need_no_data_directory() -> None:
    done = told("spark-conf", "--metastore", "lake:9083", "-X", "data_dir=/no/such")
    assert (done.code, done.errors) == (0, "")
    assert "lake:9083" in done.output


def test_nobody_else_is_told_the_topics_unless_that_is_wanted(tmp_path: Path) -> None:
    make_topic(tmp_path, "t")
    done = told("metastore", "--listen", "0.0.0.0:0", "--data-dir", str(tmp_path))
    assert done.code == 1
    assert "no password" in done.errors


INTERRUPTED = """
import os, signal, socket, threading
from contextlib import nullcontext
from pathlib import Path

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

import jobs.sql
from admin_api.metastore import server
from broker.cli.sql import AnswerFormat, _run

silent = socket.create_server(("127.0.0.1", 0))

def interrupts():
    asked, _ = silent.accept()
    asked.recv(1)
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()

def asks(*_):
    java = JavaParameters(port=silent.getsockname()[1])
    ClientServer(java, PythonParameters(port=0, eager_load=False)).jvm.System

server.beside = jobs.sql.sql_session = lambda *_: nullcontext("")
jobs.sql.run = asks
threading.Thread(target=interrupts, daemon=True).start()
try:
    _run(Path(), ["DELETE"], AnswerFormat.TABLE, None)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_in_a_statement_is_told_by_nobody() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, timeout=IDLE_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"interrupted\n", b"")
