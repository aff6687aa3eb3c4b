"""Java takes the file of Spark's classes, and is quiet where it cannot."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.spark_archive import ONE_COMPILER, for_short_sparks


def test_without_a_file_none_is_named(tmp_path: Path) -> None:
    assert for_short_sparks(tmp_path / "none.jsa") == ONE_COMPILER


@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_java_runs_without_a_word_where_the_file_is_none_of_its(tmp_path: Path) -> None:
    archive = tmp_path / "spark.jsa"
    archive.write_bytes(b"of another version" * 999)
    options = for_short_sparks(archive)
    assert str(archive) in options
    done = subprocess.run(
        ["java", *options.split(), "-version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "version" in done.stderr
