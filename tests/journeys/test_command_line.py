"""``lakelog topic | group | produce | consume`` against a running broker."""

import json
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from tests.support.patience import STUCK_S, Patience
from tests.support.ports import nobody
from tests.support.process import BrokerPart, told
from tests.support.transactions import commit, transactional, write


@pytest.fixture
def ask(broker: BrokerPart):
    """A command to that broker, its answer as text; ``json=True`` parses it."""

    def asked(*words: str, stdin: bytes = b"", json_: bool = False):
        extra = ["--json"] if json_ else []
        done = told(*words, "--bootstrap", broker.bootstrap, *extra, stdin=stdin)
        assert (done.code, done.errors) == (0, ""), done
        return json.loads(done.output) if json_ else done.output

    return asked


@pytest.fixture
def refused(broker: BrokerPart):
    """A command that is refused: the sentence, and nothing else."""

    def asked(*words: str, code: int = 1) -> str:
        done = told(*words, "--bootstrap", broker.bootstrap)
        assert (done.code, done.output) == (code, ""), done
        [sentence] = done.errors.splitlines()
        assert sentence.startswith("lakelog: ")
        return sentence.removeprefix("lakelog: ")

    return asked


def test_a_topic_is_created_described_altered_listed_and_deleted(ask, topic):
    assert ask("topic", "create", topic, "--partitions", "2", json_=True) == {
        "topic": topic,
        "partitions": 2,
        "configs": {},
    }
    assert {"topic": topic, "partitions": 2} in ask("topic", "list", json_=True)
    configs = ["-X", "retention.ms=5000", "-X", "cleanup.policy=compact"]
    altered = ask("topic", "alter", topic, "--partitions", "3", *configs, json_=True)
    assert altered == {
        "topic": topic,
        "partitions": 3,
        "configs": {"retention.ms": "5000", "cleanup.policy": "compact"},
    }
    ask("topic", "alter", topic, "-X", "cleanup.policy=")
    assert ask("topic", "describe", topic).splitlines() == [
        f"topic: {topic}",
        "partitions: 3",
        "configs: retention.ms=5000",
    ]
    assert ask("topic", "delete", topic, json_=True) == {"deleted": topic}
    assert topic not in ask("topic", "list")


def test_what_cannot_be_is_refused_in_one_sentence(refused, topic):
    assert refused("topic", "describe", topic) == f"there is no topic {topic!r}"
    assert "UNKNOWN_TOPIC_OR_PART" in refused("topic", "delete", topic)
    assert "UNKNOWN_TOPIC_OR_PART" in refused(
        "topic", "alter", topic, "-X", "retention.ms=1"
    )
    assert "TOPIC_EXCEPTION" in refused("topic", "create", "../up")
    assert "INVALID_CONFIG" in refused("topic", "create", topic, "-X", "no.such=1")
    assert refused("consume", topic) == f"there is no topic {topic!r}"
    assert refused("group", "describe", topic) == f"there is no group {topic!r}"
    assert "GROUP_ID_NOT_FOUND" in refused("group", "delete", topic)
    assert "key=value" in refused("topic", "create", topic, "-X", "retention", code=2)


def test_looking_at_a_topic_does_not_create_it(ask, refused, topic):
    refused("topic", "describe", topic)
    refused("consume", topic)
    assert topic not in ask("topic", "list")


def test_lines_go_in_and_come_out(ask, topic):
    assert ask("produce", topic, stdin=b"one\ntwo\n\nlast") == "produced: 4\n"
    assert ask("consume", topic, "--exit-at-end") == "one\ntwo\n\nlast\n"
    assert ask("consume", topic, "--count", "2") == "one\ntwo\n"


def test_a_line_that_is_too_large_ends_it_behind_what_was_read_before(
    broker, ask, topic
):
    lines = b"line\n" * 5000 + b"x" * 1_500_000
    done = told("produce", topic, "--bootstrap", broker.bootstrap, stdin=lines)
    assert (done.code, done.output) == (1, "")
    assert done.errors == (
        "lakelog: line 5001: Broker: Message size too large; "
        "the 5000 before it are stored\n"
    )
    assert ask("consume", topic, "--exit-at-end") == "line\n" * 5000


def test_how_large_a_line_may_be_the_topic_says(ask, topic):
    ask("topic", "create", topic, "-X", "max.message.bytes=5000000")
    lines = b"x" * 1_500_000 + b"\nafter\n"
    assert ask("produce", topic, stdin=lines) == "produced: 2\n"
    assert ask("consume", topic, "--exit-at-end").encode() == lines


@pytest.mark.parametrize("ends", [True, False])
def test_a_line_that_no_request_can_hold_is_refused_before_it_is_sent(
    broker, ask, topic, ends
):
    """And of one that never ends no more is read than shows that."""
    lines = b"line\n" + bytes(101_000_000) + b"\n" * ends
    done = told("produce", topic, "--bootstrap", broker.bootstrap, stdin=lines)
    assert done.errors == (
        "lakelog: line 2: Broker: Message size too large; the 1 before it are stored\n"
    )
    assert ask("consume", topic, "--exit-at-end") == "line\n"


def test_lines_that_a_topic_takes_each_it_takes_together(broker, ask, topic):
    ask("topic", "create", topic, "-X", "max.message.bytes=2000")
    lines = b"line\n" * 500 + b"x" * 5000
    done = told("produce", topic, "--bootstrap", broker.bootstrap, stdin=lines)
    assert done.errors.startswith("lakelog: line 501: Broker: Message size too large; ")
    assert ask("consume", topic, "--exit-at-end") == "line\n" * 500


def test_keys_headers_partitions_and_times_are_told_in_json(ask, topic):
    ask("topic", "create", topic, "--partitions", "2")
    before = time.time() * 1000
    headers = ["--header", "a=1", "--header", "a=2", "--header", "b="]
    split = ["--key-separator", ":", "--partition", "1"]
    ask("produce", topic, *split, *headers, stdin=b"k:v\n:\nonly\n\xff:x\n")
    lines = ask("consume", topic, "--exit-at-end", "--json").splitlines()
    found = [json.loads(line) for line in lines]
    assert [(r["key"], r["value"]) for r in found] == [
        ("k", "v"),
        ("", ""),
        (None, "only"),
        ({"base64": "/w=="}, "x"),
    ]
    assert [(r["partition"], r["offset"]) for r in found] == [(1, n) for n in range(4)]
    assert found[0]["headers"] == [["a", "1"], ["a", "2"], ["b", ""]]
    assert all(before - 1 <= r["timestamp"] <= time.time() * 1000 for r in found)


def test_reading_starts_where_it_is_asked_to(ask, topic):
    ask("produce", topic, stdin=b"0\n1\n2\n")
    time.sleep(0.05)
    between = datetime.now(UTC).isoformat()
    time.sleep(0.05)
    ask("produce", topic, stdin=b"3\n4\n")

    def values(start: str) -> list[str]:
        return ask("consume", topic, "--from", start, "--exit-at-end").split()

    assert values("beginning") == ["0", "1", "2", "3", "4"]
    assert values("end") == []
    assert values("3") == ["3", "4"]
    assert values("99") == []
    assert values(between) == ["3", "4"]
    assert values("2100-01-01T00:00:00Z") == []


PLACED = """
import sys
from broker.cli import consume, main
was = consume._starts
def starts(*given):
    found = was(*given)
    print("placed", file=sys.stderr, flush=True)
    return found
consume._starts = starts
main()
"""


@pytest.mark.parametrize(
    ("start", "first"),
    [("5", "5"), ("7", "news"), ("between", "4"), ("later", "news")],
)
def test_below_where_it_starts_nothing_is_read_of_an_open_transaction_either(
    broker, ask, topic, start, first
):
    """What it wrote stands there already, and so does what came behind it."""
    ask("produce", topic, stdin=b"0\n1\n")
    producer = transactional(broker.bootstrap, topic)
    producer.begin_transaction()
    write(producer, topic, b"2", b"3")
    time.sleep(0.05)
    times = {"between": datetime.now(UTC).isoformat(), "later": "2100-01-01T00:00:00Z"}
    time.sleep(0.05)
    ask("produce", topic, stdin=b"4\n5\n6\n")
    reader = subprocess.Popen(
        [sys.executable, "-c", PLACED, "consume", topic,
         "--from", times.get(start, start),
         "--count", "1", "--bootstrap", broker.bootstrap],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    assert reader.stderr is not None
    assert reader.stderr.readline() == b"placed\n"
    commit(producer)
    ask("produce", topic, stdin=b"news\n")
    assert reader.communicate(timeout=STUCK_S) == (f"{first}\n".encode(), b"")


def test_who_starts_behind_an_open_transaction_is_at_the_end(broker, ask, topic):
    producer = transactional(broker.bootstrap, topic)
    producer.begin_transaction()
    write(producer, topic, b"0")
    ask("produce", topic, stdin=b"1\n2\n")
    assert ask("consume", topic, "--from", "1", "--exit-at-end") == ""
    commit(producer)
    assert ask("consume", topic, "--from", "1", "--exit-at-end") == "1\n2\n"


def test_a_place_that_is_none_is_bad_usage(refused, ask, topic):
    ask("topic", "create", topic)
    assert "--from takes" in refused("consume", topic, "--from", "soon", code=2)
    assert "--group takes" in refused("consume", topic, "--group", "", code=2)


def test_a_group_goes_on_where_it_was(ask, topic):
    ask("produce", topic, stdin=b"0\n1\n2\n3\n4\n")
    group = f"g-{topic}"
    first = ask("consume", topic, "--group", group, "--count", "2")
    [row] = ask("group", "describe", group, json_=True)["offsets"]
    assert row == {"topic": topic, "partition": 0, "committed": 2, "end": 5, "lag": 3}
    rest = ask("consume", topic, "--group", group, "--exit-at-end")
    assert (first + rest).split() == ["0", "1", "2", "3", "4"]
    assert {"group": group, "state": "EMPTY"} in ask("group", "list", json_=True)
    assert ask("group", "delete", group, json_=True) == {"deleted": group}
    assert group not in ask("group", "list")


def test_a_consumer_at_the_end_prints_what_comes(broker, ask, topic):
    ask("topic", "create", topic)
    reader = subprocess.Popen(
        [sys.executable, "-m", "broker.cli", "consume", topic, "--from", "end",
         "--count", "1", "--bootstrap", broker.bootstrap],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    patience = Patience()
    while reader.poll() is None and patience.lasts():
        ask("produce", topic, stdin=b"news\n")
    assert reader.communicate()[0] == b"news\n"


def test_a_broken_pipe_ends_quietly(broker, ask, topic):
    ask("produce", topic, stdin=b"x" * 1000 + b"\n" + b"y\n" * 20_000)
    words = f"{sys.executable} -m broker.cli consume {topic} --bootstrap"
    done = subprocess.run(
        f"{words} {broker.bootstrap} --exit-at-end | head -1",
        shell=True, capture_output=True, timeout=STUCK_S,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (b"x" * 1000 + b"\n", b"")


def test_a_full_disk_below_what_is_read_is_a_sentence(broker, ask, topic):
    ask("produce", topic, stdin=b"x" * 100_000)
    words = [sys.executable, "-m", "broker.cli", "consume", topic]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*words, "--bootstrap", broker.bootstrap],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=STUCK_S,
        )  # fmt: skip
    sentence = "lakelog: standard output takes no more: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, sentence)


CALLED_BACK = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us
from {module} import {name}
{name}.{method} = lambda *_: os.kill(os.getpid(), signal.SIGINT)
from broker.cli import main
main()
"""


@pytest.mark.parametrize(
    ("command", "callback", "code"),
    [
        ("produce", ("broker.cli.produce", "Deliveries", "__call__"), 130),
        ("consume", ("broker.cli.silence", "Silence", "hear"), 0),
    ],
)
def test_ctrl_c_while_the_client_calls_back_ends_without_a_word(
    broker, ask, topic, command, callback, code
):
    ask("topic", "create", topic)
    module, name, method = callback
    program = CALLED_BACK.format(module=module, name=name, method=method)
    done = subprocess.run(
        [sys.executable, "-c", program, command, topic,
         "--bootstrap", broker.bootstrap],
        input=b"a\n", capture_output=True, timeout=STUCK_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "list"],
        ["produce", "t"],
        ["consume", "t"],
        ["group", "list"],
        ["transactions", "list"],
    ],
)
def test_a_broker_that_is_not_there_is_told(words):
    with nobody() as address:
        done = told(*words, "--bootstrap", address)
    assert (done.code, done.output) == (1, "")
    assert done.errors == f"lakelog: no broker answers at {address}\n"


def test_the_settings_are_told():
    schema = json.loads(told("config", "schema", "--json").output)
    keys = {row["key"]: row for row in schema}
    assert keys["lake.flush_ms"]["default"] == 2500
    assert all(row["description"] for row in schema)
    done = told("config", "show", "--json", "-X", "lake.flush.ms=7")
    assert json.loads(done.output)["lake.flush_ms"] == 7


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["broker", "-X", "lake.flsh.ms=1"], 2, "did you mean lake.flush_ms?"),
        (["up", "-X", "lake.flush.ms=soon"], 2, "lake.flush_ms=soon"),
        (["up", "-X", "num.partition=1"], 2, "did you mean num.partitions?"),
        (["broker", "-X", "num.partitions=0"], 2, "num.partitions=0"),
        (["up", "-X", "x"], 2, "-X takes key=value"),
        (["up", "--listener", "9092"], 2, "HOST:PORT"),
        (["topic", "list", "--bootstrap", "localhost"], 2, "takes HOST:PORT"),
        (["consume", "t", "--bootstrap", "h:99999"], 2, "takes HOST:PORT"),
        (["broker", "--config", "/no/such.toml"], 2, "/no/such.toml"),
        (["table", "t", "--data-dir", "/no/such"], 1, "is not a data directory"),
        (["compact", "--data-dir", "/no/such"], 1, "is not a data directory"),
        (["check", "--data-dir", "/no/such"], 1, "is not a data directory"),
        (["broker", "--data-dir", "/dev/null/x"], 1, "/dev/null"),
    ],
)
def test_bad_flags_and_settings_are_one_sentence(words, code, sentence):
    done = told(*words)
    assert (done.code, done.output) == (code, ""), done
    assert sentence in done.errors
    assert len(done.errors.splitlines()) == 1


NO_TEXT = b"\xff".decode(errors="surrogateescape")


@pytest.mark.parametrize(
    "words",
    [
        ["produce", "t", "--header", f"{NO_TEXT}=1"],
        ["produce", "t", "--header", f"k={NO_TEXT}"],
        ["produce", "t", "--key-separator", NO_TEXT],
        ["produce", f"t{NO_TEXT}"],
        ["consume", "t", "--group", NO_TEXT],
        ["topic", "create", f"t{NO_TEXT}"],
        ["topic", "create", "t", "-X", f"retention.ms={NO_TEXT}"],
        ["topic", "delete", f"t{NO_TEXT}"],
        ["group", "describe", NO_TEXT],
        ["group", "delete", NO_TEXT],
        ["transactions", "describe", NO_TEXT],
        ["broker", "--listener", f"{NO_TEXT}:9092"],
    ],
)
def test_an_argument_that_is_no_text_is_one_sentence(words):
    """librdkafka's binding and others fail at it without any."""
    done = told(*words)
    assert (done.code, done.output) == (2, "")
    [sentence] = done.errors.splitlines()
    assert sentence.startswith("lakelog: arguments are UTF-8, but for paths, and not b")


@pytest.mark.parametrize(
    "words",
    [
        ["produce", ""],
        ["consume", ""],
        ["topic", "create", ""],
        ["topic", "describe", ""],
        ["topic", "alter", ""],
        ["topic", "delete", ""],
        ["topic", "trim", "", "--before", "0"],
        ["group", "reset-offsets", "g", "--to-latest", "--topic", ""],
        ["transactions", "abort", "--topic", "", "--start-offset", "0"],
        ["compact", "t", ""],
        ["table", ""],
        ["undelete", ""],
        ["erase", "", "--key", "k"],
    ],
)
def test_a_topics_name_that_is_empty_is_bad_usage(words):
    done = told(*words)
    said = "lakelog: a topic's name is empty: say which topic\n"
    assert (done.code, done.output, done.errors) == (2, "", said)


@pytest.mark.parametrize(
    "words",
    [
        ["produce", "t", "--partition", str(2**31)],
        ["topic", "trim", "t", "--before", str(2**63)],
        ["topic", "trim", "t", "--before", "0", "--partition", str(2**31)],
        ["transactions", "list", "--longer-than-ms", str(2**63)],
        ["transactions", "abort", "--topic", "t", "--partition", str(2**31)],
    ],
)
def test_a_number_that_kafka_has_no_room_for_is_bad_usage(words):
    done = told(*words)
    assert (done.code, done.output) == (2, "")
    assert f"Invalid value for '{words[-2]}'" in done.errors
    assert "Traceback" not in done.errors


@pytest.mark.parametrize("words", [["up", "--nope"], ["nope"], ["topic", "create"]])
def test_flags_and_commands_that_are_not_there(words):
    done = told(*words)
    assert (done.code, done.output) == (2, "")
    assert "Error:" in done.errors
    assert "Traceback" not in done.errors


def test_a_data_directory_in_use_is_told_with_whose_it_is(broker):
    done = told(
        "broker", "--data-dir", str(broker.data_dir), "--listener", "127.0.0.1:0"
    )
    assert done.code == 1
    assert f"is in use by the broker on {broker.listener}" in done.errors


@pytest.mark.parametrize("part", ["broker", "up", "admin"])
def test_a_taken_port_is_told(broker, tmp_path, part):
    flag = "--admin" if part == "admin" else "--listener"
    words = [part, "--data-dir", str(tmp_path / "d"), flag, broker.bootstrap]
    if part == "up":
        words += ["--no-admin", "--no-compactor"]
    done = told(*words)
    assert (done.code, done.output) == (1, "")
    assert f"cannot listen on {broker.bootstrap}: " in done.errors
    assert "Traceback" not in done.errors
