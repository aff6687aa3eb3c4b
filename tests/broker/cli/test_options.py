"""Flags become settings."""

from pathlib import Path

import pytest
from typer.main import get_command

from broker.cli.announce import REPORTED_VARIABLE
from broker.cli.app import app
from broker.cli.failures import BadUsage
from broker.cli.options import PATHS, check_arguments, pairs, settings_of
from broker.setting_values import SettingsError

NO_TEXT = b"\xff".decode(errors="surrogateescape")


def test_pairs_keep_their_order_and_repeat():
    assert pairs(["a=1", "a=2", "b=", "c==x"]) == [
        ("a", "1"),
        ("a", "2"),
        ("b", ""),
        ("c", "=x"),
    ]
    assert pairs(None) == []


@pytest.mark.parametrize("item", ["a", "", "=1"])
def test_an_item_that_is_no_pair_is_bad_usage(item):
    with pytest.raises(BadUsage, match="--header takes key=value"):
        pairs([item], "--header")


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "create", "\u00fc"],
        ["broker", "--data-dir", NO_TEXT, "--config", NO_TEXT],
        ["broker", f"--data-dir={NO_TEXT}", f"--config={NO_TEXT}"],
    ],
)
def test_arguments_are_text_and_paths_any_bytes(words):
    check_arguments(words)


@pytest.mark.parametrize(
    "words", [[NO_TEXT], ["--data-dir", "d", f"t{NO_TEXT}"], [f"--group={NO_TEXT}"]]
)
def test_an_argument_that_is_no_text_is_bad_usage(words):
    with pytest.raises(BadUsage, match=r"UTF-8, but for paths, and not b'.*\\xff'$"):
        check_arguments(words)


def options_of(command):
    """All that it takes, and its commands take."""
    for inner in getattr(command, "commands", {}).values():
        yield from options_of(inner)
    yield from command.params


def test_each_option_that_takes_a_path_is_known_as_one():
    options = options_of(get_command(app))
    paths = [one.opts for one in options if one.type_descriptor.annotation is Path]
    assert {name for names in paths for name in names} == set(PATHS)


def test_named_flags_and_extras_become_settings(tmp_path):
    settings = settings_of(
        tmp_path, None, ["lake.flush.ms=7"], listener="0.0.0.0:1", admin=None
    )
    assert settings.data_dir == tmp_path
    assert settings.listener == "0.0.0.0:1"
    assert settings.lake.flush_ms == 7
    assert settings.admin == "127.0.0.1:8082"


def test_a_flag_beats_the_file(tmp_path):
    file = Path(tmp_path / "l.toml")
    file.write_text("listener = '1.1.1.1:1'\nadmin = '1.1.1.1:2'\n")
    settings = settings_of(None, file, None, listener="2.2.2.2:2")
    assert (settings.listener, settings.admin) == ("2.2.2.2:2", "1.1.1.1:2")


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(SettingsError, match=r"did you mean lake\.flush_ms"):
        settings_of(None, None, ["lake.flsh.ms=1"])


def test_what_has_no_effect_is_told_in_one_line(capsys, monkeypatch):
    flags = ["num.io.threads=8", "process.roles=broker", "num.partitions=2"]
    assert settings_of(None, None, flags).broker.num_partitions == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert "warning" in told[0]
    assert told[0].endswith("names=num.io.threads, process.roles")
    monkeypatch.setenv(REPORTED_VARIABLE, "1")  # by `up`, whose part this is
    settings_of(None, None, flags)
    assert capsys.readouterr().err == ""


def test_who_has_nothing_to_tell_tells_nothing(capsys):
    settings_of(None, None, ["log.retention.hours=1"])
    assert capsys.readouterr().err == ""
