"""A Java is found where Spark looks for one."""

from pathlib import Path

import pytest

from jobs.java import java_found


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
