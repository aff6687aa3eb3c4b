"""Settings: precedence, spellings, and mistakes that are told."""

from pathlib import Path

import pytest

from broker import settings
from broker.settings import SettingsError, load

NOWHERE: dict[str, str] = {}


def test_defaults_are_kafkas_where_kafka_has_them() -> None:
    found = load(environment=NOWHERE)
    assert found.listener == "127.0.0.1:9092"
    assert found.broker.message_max_bytes == 1_048_588
    assert found.groups.initial_rebalance_delay_ms == 3_000


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "lakelog.toml"
    file.write_text(
        "node_id = 1\n[lake]\nflush_ms = 1\nflush_bytes = 1\nfollow_ms = 10\n"
    )
    found = load(
        {"lake.flush_ms": "3"},
        file,
        {"LAKELOG_LAKE__FLUSH_MS": "2", "LAKELOG_LAKE__FLUSH_BYTES": "2", "PATH": "x"},
    )
    assert found.lake.flush_ms == 3
    assert found.lake.flush_bytes == 2
    assert found.lake.follow_ms == 10
    assert found.lake.cold_cache_bytes == 64 << 20


@pytest.mark.parametrize(
    "spelled", ["lake.flush.ms", "lake.flush_ms", "LAKE__FLUSH_MS", "lake.flush-ms"]
)
def test_dots_and_underscores_count_alike(spelled: str) -> None:
    assert load({spelled: 7}, environment=NOWHERE).lake.flush_ms == 7


def test_no_two_settings_differ_in_dots_alone() -> None:
    known = settings.keys()
    plain = [settings._plain(key) for key in known]
    assert len(set(plain)) == len(plain)


@pytest.mark.parametrize(
    ("text", "size"), [("64Mi", 64 << 20), ("2 GiB", 2 << 30), ("5000000", 5_000_000)]
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert (
        load({"lake.flush_bytes": text}, environment=NOWHERE).lake.flush_bytes == size
    )


def test_an_unknown_key_is_refused_and_the_nearest_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"did you mean lake\.flush_ms\?"):
        load({"lake.flsh.ms": 1}, environment=NOWHERE)
    with pytest.raises(SettingsError, match=r"LAKELOG_LISTENR.*listener"):
        load(environment={"LAKELOG_LISTENR": "h:1"})
    file = tmp_path / "lakelog.toml"
    file.write_text("[lake]\nflush = 1\n")
    with pytest.raises(SettingsError, match=r"lakelog\.toml"):
        load(file=file, environment=NOWHERE)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lake.flush_ms", "soon"),
        ("lake.flush_ms", "-1"),
        ("wal.segment_bytes", "12"),
        ("listener", "nowhere"),
        ("listener", "h:70000"),
        ("log.format", "xml"),
        ("network.connections_max", "0"),
    ],
)
def test_a_value_that_is_none_is_told_with_its_key_and_origin(
    key: str, value: str
) -> None:
    with pytest.raises(SettingsError, match=rf"{key}={value} \(flag\): "):
        load({key: value}, environment=NOWHERE)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        load(file=tmp_path / "missing.toml", environment=NOWHERE)
    broken = tmp_path / "broken.toml"
    broken.write_text("a = [")
    with pytest.raises(SettingsError, match=r"broken\.toml"):
        load(file=broken, environment=NOWHERE)


def test_settings_do_not_change() -> None:
    found = load(environment=NOWHERE)
    with pytest.raises(ValueError):
        found.node_id = 2  # type: ignore[misc]


def test_every_setting_says_what_it_is_for() -> None:
    rows = settings.schema()
    assert all(row["description"] for row in rows)
    described = settings.describe(load({"node_id": 5}, environment=NOWHERE))
    assert list(described) == [row["key"] for row in rows]
    assert described["node_id"] == 5
