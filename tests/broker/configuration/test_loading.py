"""Precedence, spellings, Kafka's names, and mistakes that are told."""

from pathlib import Path

import pytest

from broker.configuration.loading import load, loaded
from broker.setting_values import SettingsError

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


def test_kafkas_names_are_taken_wherever_ours_are(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions = 3\nmessage.max.bytes=7\nlake.flush.ms=9\n")
    found = load(
        {"offset.metadata.max.bytes": "11"},
        file,
        {"KAFKA_MESSAGE_MAX_BYTES": "8", "LAKELOG_GROUP_MAX_SIZE": "12"},
    )
    assert (found.broker.num_partitions, found.broker.message_max_bytes) == (3, 8)
    assert (found.lake.flush_ms, found.groups.max_size) == (9, 12)
    assert found.groups.offset_metadata_max_bytes == 11


def test_kafkas_names_stand_in_a_toml_file(tmp_path: Path) -> None:
    file = tmp_path / "lakelog.toml"
    file.write_text("num.partitions = 3\n[log]\nlevel = 'debug'\nretention.ms = 4\n")
    found = load(file=file, environment=NOWHERE)
    assert found.broker.num_partitions == 3
    assert (found.log.level, found.topics.retention_ms) == ("debug", 4)


STOCK = """
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_kafkas_own_server_properties_starts_this_broker(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(STOCK)
    found, without_effect = loaded(file=file, environment=NOWHERE)
    assert found.node_id == 7
    assert found.listener == "0.0.0.0:9092"
    assert found.advertised == "localhost:9092"
    assert str(found.data_dir) == "/tmp/kraft-combined-logs"
    assert found.topics.retention_ms == 168 * 3_600_000
    assert found.lake.retention_check_ms == 300_000
    assert without_effect == (
        "controller.quorum.bootstrap.servers", "inter.broker.listener.name",
        "log.segment.bytes", "num.network.threads", "process.roles",
    )  # fmt: skip


def test_in_one_place_the_finer_name_wins_and_places_go_before_names() -> None:
    time = {
        "log.retention.ms": "5", "log.retention.minutes": "6",
        "log.retention.hours": "7",
    }  # fmt: skip
    for wins in (5, 6 * 60_000, 7 * 3_600_000):
        assert load(time, environment=NOWHERE).topics.retention_ms == wins
        assert load(dict(reversed(time.items()))).topics.retention_ms == wins
        time.pop(next(iter(time)))
    said = load({"log.retention.hours": "1"}, None, {"KAFKA_LOG_RETENTION_MS": "5"})
    assert said.topics.retention_ms == 3_600_000
    both = {"node.id": "5", "broker.id": "6"}
    assert load(both, environment=NOWHERE).node_id == 5


def test_kafkas_name_wins_over_ours_in_the_environment_of_a_container() -> None:
    image = {"LAKELOG_LISTENER": "0.0.0.0:9092", "LAKELOG_DATA_DIR": "/var/lib/lakelog"}
    given = {"KAFKA_LISTENERS": "PLAINTEXT://:19092", "KAFKA_LOG_DIRS": "/d"}
    for environment in (image | given, given | image):
        found = load(environment=environment)
        assert (found.listener, str(found.data_dir)) == ("0.0.0.0:19092", "/d")


def test_what_has_no_meaning_here_is_named_once_whoever_says_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.connect=a:1\nlistener.name.x.ssl.key.password=p\n")
    _, without_effect = loaded(
        {"num.io.threads": "8"},
        file,
        {"KAFKA_NUM_IO_THREADS": "9", "KAFKA_BOOTSTRAP_SERVERS": "a:1"},
    )
    assert without_effect == (
        "KAFKA_BOOTSTRAP_SERVERS",
        "listener.name.x.ssl.key.password",
        "num.io.threads",
        "zookeeper.connect",
    )


def test_how_long_kafkas_cleaner_waits_has_no_meaning_here() -> None:
    given = {"log.cleaner.backoff.ms": "1"}
    assert loaded(given, environment=NOWHERE)[1] == ("log.cleaner.backoff.ms",)


def test_a_name_that_nobody_knows_is_refused_with_kafkas_nearest() -> None:
    with pytest.raises(SettingsError, match=r"did you mean num\.partitions\?"):
        load({"num.partition": 1}, environment=NOWHERE)
    with pytest.raises(SettingsError, match=r"KAFKA_NUM_PARTITONS.*num\.partitions\?"):
        load(environment={"KAFKA_NUM_PARTITONS": "1"})
    with pytest.raises(SettingsError, match="unknown setting"):
        load({"qqqq": 1}, environment=NOWHERE)


def test_a_variable_of_kafkas_prefix_is_never_taken_for_a_name_of_ours() -> None:
    found, without_effect = loaded(environment={"KAFKA_LOG_LEVEL": "WARN"})
    assert found.log.level == "info"
    assert without_effect == ("KAFKA_LOG_LEVEL",)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("num.partitions", "0", "greater than or equal to 1"),
        ("num.partitions", "many", "valid integer"),
        ("auto.create.topics.enable", "perhaps", "valid boolean"),
        ("log.retention.hours", "a week", "whole number of -1 or more"),
        ("log.retention.ms", "-2", "greater than or equal to -1"),
        ("offsets.retention.minutes", "0", "whole number of 1 or more"),
        ("log.cleanup.policy", "shred", "delete, compact"),
        ("log.message.timestamp.type", "Now", "'CreateTime' or 'LogAppendTime'"),
        ("listeners", "SSL://:9093", "only PLAINTEXT"),
        ("listeners", "PLAINTEXT://:70000", "port above 65535"),
        ("log.dirs", "/a,/b", "one directory"),
    ],
)
def test_a_value_that_is_none_is_told_with_kafkas_name_and_what_is_allowed(
    name: str, value: str, allowed: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load({name: value}, environment=NOWHERE)
    sentence = str(refused.value)
    assert sentence.startswith(f"{name}={value} (flag): ")
    assert allowed in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("name", ["num.partitions", "listeners", "listener"])
def test_what_is_said_of_a_value_is_one_short_line_whatever_is_in_it(name: str) -> None:
    for value in ("a\nlakelog: b", "\x1b[2J", "9" * 70_000):
        with pytest.raises(SettingsError) as refused:
            load({name: value}, environment=NOWHERE)
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 700


def test_a_value_that_another_place_overrides_is_not_looked_at() -> None:
    given = {"KAFKA_LISTENERS": "SSL://:9093"}
    assert load({"listener": "h:1"}, environment=given).listener == "h:1"


def test_a_properties_file_that_is_none_is_told(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("a=\\u12\n")
    with pytest.raises(SettingsError, match=r"server\.properties.*hexadecimal"):
        load(file=file, environment=NOWHERE)
    file = tmp_path / "server.conf"
    file.write_text("listeners=PLAINTEXT://:9092\n")
    with pytest.raises(SettingsError, match=r"server\.conf.*\.properties"):
        load(file=file, environment=NOWHERE)
