"""What a part needs: a Java that Spark can use, and a place for its data."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from admin_api.internal import Internal
from admin_api.problems import Problem
from broker.cli import run
from broker.cli.failures import UserError
from broker.cli.run import java_found
from broker.settings import Settings
from broker.status.unix_socket import OF_COMPACTOR


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the one Java of this machine stands, on nobody's path yet."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return java.parents[1]


def test_it_is_found_on_the_path_behind_a_link(home: Path, tmp_path: Path) -> None:
    assert not java_found()
    (tmp_path / "java").symlink_to(home / "bin" / "java")
    assert java_found()
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="11.0.2"\n')
    assert not java_found()


def test_spark_looks_nowhere_else_if_there_is_a_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_found()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert not java_found()


@pytest.mark.parametrize(
    ("version", "is_found"),
    [("1.8.0_392", False), ("16", False), ("17", True), ("21.0.1", True), ("?", True)],
)
def test_its_version_counts(
    home: Path, monkeypatch: pytest.MonkeyPatch, version: str, *, is_found: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home))
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    assert java_found() is is_found


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
