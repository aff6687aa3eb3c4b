"""Flags become settings."""

from pathlib import Path

import pytest

from broker.cli.failures import BadUsage
from broker.cli.options import pairs, settings_of
from broker.settings import SettingsError


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
