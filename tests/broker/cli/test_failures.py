"""Mistakes end in one sentence and an exit code."""

import os
import subprocess
import sys

import pytest
from confluent_kafka import KafkaError, KafkaException

from broker.cli.failures import BadUsage, UserError, reported
from broker.setting_values import SettingsError


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (UserError("there is no topic 'x'"), 1, "there is no topic 'x'"),
        (BadUsage("-X takes key=value"), 2, "-X takes key=value"),
        (SettingsError("unknown setting 'x'"), 2, "unknown setting 'x'"),
        (TimeoutError(), 1, "the broker did not answer in time"),
        (
            KafkaException(KafkaError(KafkaError.INVALID_CONFIG, "no such")),
            1,
            "INVALID_CONFIG: no such",
        ),
    ],
)
def test_an_error_of_the_user_is_told_in_a_sentence(error, code, sentence, capsys):
    with pytest.raises(SystemExit) as left, reported():
        raise error
    assert left.value.code == code
    assert capsys.readouterr().err == f"lakelog: {sentence}\n"


def test_an_error_of_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError), reported():
        raise ZeroDivisionError


def test_the_exit_code_of_a_command_passes():
    with pytest.raises(SystemExit) as left, reported():
        raise SystemExit(3)
    assert left.value.code == 3


def test_a_working_directory_that_was_removed_is_named(tmp_path):
    """Whatever the command would do: libraries look there when they are loaded."""
    (tmp_path / "gone").mkdir()
    place = ":".join(map(os.path.abspath, sys.path))
    text = "import os; os.rmdir(os.getcwd()); from broker.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", text, "config", "show"],
        env=os.environ | {"PYTHONPATH": place}, cwd=tmp_path / "gone",
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "lakelog: the working directory is gone; go to another one\n"
    )


@pytest.mark.parametrize(
    "words",
    [["config", "schema"], ["config", "show", "--json"], ["--help"]],
)
def test_a_full_disk_below_standard_output_is_a_sentence(words):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "broker.cli", *words],
            stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "lakelog: standard output takes no more: No space left on device\n"
    )
