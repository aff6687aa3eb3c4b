"""A whole broker: started, spoken to by a client's library, stopped, started again."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import uvloop
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.configuration.loading import load
from broker.node import Node, StartRefused
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.metadata import MetadataRequest
from broker.settings import Settings
from lakehouse.location import table_path
from tests.support.beats import PING
from tests.support.patience import IDLE_S, STUCK_S, Patience, wait_until
from tests.support.peer import Peer
from tests.support.rig import ENDLESS_MS, fetch_request
from tests.support.wire import Wire, frame_of

PROGRAM = """
import sys
from broker.node import run_broker
from broker.configuration.loading import load
flags = dict(item.split("=", 1) for item in sys.argv[1:])
sys.exit(run_broker(load(flags), lambda line: print(line, flush=True)))
"""


def settings(data_dir: Path, **more: str) -> Settings:
    flags = {"data_dir": str(data_dir), "listener": "127.0.0.1:0"}
    small = {"wal.segment_bytes": "4Mi", "groups.initial_rebalance_delay_ms": "0"}
    return load(flags | small | more, environment={})


class Program:
    """The broker as a process."""

    def __init__(self, data_dir: Path, **more: str) -> None:
        flags = {"data_dir": str(data_dir), "listener": "127.0.0.1:0"} | more
        flags |= {"wal.segment_bytes": "4Mi"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *[f"{k}={v}" for k, v in flags.items()]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline().strip()

    @property
    def kafka(self) -> str:
        return self.line.split("kafka=")[1].split()[0]

    def end(self, number: int) -> int:
        """Its exit code after that signal."""
        self.process.send_signal(number)
        self.process.communicate(timeout=STUCK_S)
        return self.process.returncode


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    running: list[Program] = []
    yield running
    for program in running:
        if program.process.poll() is None:
            program.process.kill()
            program.process.communicate()


def produce(kafka: str, topic: str, values: list[bytes]) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": kafka, "acks": "all"})
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda e, _: e and failed.append(e)
        )
    assert producer.flush(IDLE_S) == 0
    assert failed == []


def consume(kafka: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    patience = Patience()
    while len(found) < count and patience.lasts(len(found)):
        for message in consumer.consume(1_000, 0.5):
            assert message.error() is None
            found.append(message.value())
    consumer.close()
    return found


def test_it_says_that_it_is_ready_serves_a_client_and_stops(
    tmp_path: Path, programs: list[Program]
) -> None:
    program = Program(tmp_path)
    programs.append(program)
    assert program.line == f"ready kafka={program.kafka} tables={tmp_path / 'tables'}"
    values = [b"%d" % i for i in range(1_000)]
    produce(program.kafka, "orders", values)
    assert consume(program.kafka, "orders", 1_000) == values
    assert program.end(signal.SIGTERM) == 0


def test_what_was_acknowledged_is_there_after_a_kill(
    tmp_path: Path, programs: list[Program]
) -> None:
    program = Program(tmp_path)
    programs.append(program)
    values = [os.urandom(1_000) for _ in range(8_000)]  # more than one segment
    produce(program.kafka, "orders", values[:6_000])
    program.end(signal.SIGKILL)
    again = Program(tmp_path)
    programs.append(again)
    produce(again.kafka, "orders", values[6_000:])
    assert consume(again.kafka, "orders", 8_000) == values
    assert again.end(signal.SIGTERM) == 0


def test_a_second_signal_ends_it_at_once(
    tmp_path: Path, programs: list[Program]
) -> None:
    program = Program(tmp_path, **{"network.drain_ms": "60000"})
    programs.append(program)
    host, port = program.kafka.split(":")
    produce(program.kafka, "orders", [b"x"])
    with Peer(program.kafka) as waiting:
        fetch = fetch_request("orders", (0, 1), max_wait_ms=ENDLESS_MS)
        waiting.send(frame_of(PING, 3), frame_of(fetch, 12))
        waiting.receive()  # what was sent with it is being answered
        program.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not listens(host, int(port)))  # the first one was heard
        assert program.process.poll() is None
        assert program.end(signal.SIGTERM) == 1


def listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port)).close()
    except OSError:
        return False
    return True


HELD_UP = """
import sys, time
from broker import node
from broker.configuration.loading import load

def slowly(*given, assemble=node.assemble):
    time.sleep(2.5)
    return assemble(*given)

node.assemble = slowly
flags = dict(item.split("=", 1) for item in sys.argv[1:])
node.run_broker(load(flags), lambda line: print(line, flush=True))
"""


def test_a_start_that_holds_the_loop_up_warns_nobody(tmp_path: Path) -> None:
    flags = [f"data_dir={tmp_path}/data", "listener=127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-c", HELD_UP, *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=STUCK_S)
    finally:
        process.kill()
    assert "serving" in said
    assert "held up" not in said


LOADING = """
import sys, threading
from broker import node
from broker.configuration.loading import load
node.inspect.warm = threading.Event().wait
flags = dict(item.split("=", 1) for item in sys.argv[1:])
node.run_broker(load(flags), lambda line: print(line, flush=True))
"""


def test_a_signal_is_heeded_while_what_is_heavy_is_loaded(tmp_path: Path) -> None:
    said = tmp_path / "said"
    flags = [f"data_dir={tmp_path}/data", "listener=127.0.0.1:0"]
    with said.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", LOADING, *flags],
            stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready ")
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopped" in said.read_text())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("reason", ["port", "directory", "newer", "address"])
def test_what_prevents_a_start_is_one_sentence(
    reason: str, tmp_path: Path, programs: list[Program]
) -> None:
    data_dir, listener = tmp_path / "data", "127.0.0.1:0"
    first = Program(tmp_path / "data" if reason == "directory" else tmp_path / "other")
    programs.append(first)
    if reason == "port":
        listener = first.kafka
    if reason == "address":
        listener = "192.0.2.1:9092"
    if reason == "newer":
        data_dir.mkdir()
        (data_dir / "VERSION").write_text("999\n")
    refused = Program(data_dir, listener=listener)
    _, told = refused.process.communicate(timeout=STUCK_S)
    assert refused.process.returncode == 1
    sentence = told.splitlines()[-1]
    assert sentence.startswith("lakelog: ")
    assert "Traceback" not in told
    expected = {
        "port": "cannot listen on",
        "directory": f"process {first.process.pid}",
        "newer": "newer version",
        "address": "cannot listen on",
    }
    assert expected[reason] in sentence


def test_a_start_that_was_refused_leaves_the_directory_free(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listener = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(StartRefused):
                await Node.start(settings(tmp_path, listener=listener))
        node = await Node.start(settings(tmp_path))
        await node.stop()

    uvloop.run(story())


def test_a_start_without_the_catalog_of_its_log_is_refused(tmp_path: Path) -> None:
    """An empty one would take all that segments hold for deleted topics'."""

    async def story() -> None:
        node = await Node.start(settings(tmp_path))
        await node.stop()
        for path in tmp_path.glob("catalog.db*"):
            path.unlink()
        with pytest.raises(StartRefused, match="lakelog rebuild"):
            await Node.start(settings(tmp_path))
        assert not (tmp_path / "catalog.db").exists()

    uvloop.run(story())


def test_without_the_compiled_writer_python_writes_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "broker.storage.lane", None)  # cannot be imported

    async def story() -> None:
        node = await Node.start(settings(tmp_path))
        with structlog.testing.capture_logs() as logs:
            await node.accelerate(asyncio.get_running_loop())
        (told,) = logs
        assert told["log_level"] == "warning"
        assert "broker.storage.lane" in told["why"]
        kafka = f"127.0.0.1:{node.address[1]}"
        await asyncio.to_thread(produce, kafka, "t", [b"a", b"b"])
        assert await asyncio.to_thread(consume, kafka, "t", 2) == [b"a", b"b"]
        await node.stop()

    uvloop.run(story())


def test_a_free_port_is_chosen_and_told_to_clients(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Node.start(settings(tmp_path))
        wire = await Wire.open(node.address)
        answer = await wire.ask(MetadataRequest(topics=None), 12)
        (broker,) = answer.brokers
        assert (broker.host, broker.port) == node.address
        assert answer.cluster_id == node.broker.cluster_id
        wire.close()
        await node.stop()

    uvloop.run(story())


def test_clients_are_told_what_is_advertised(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Node.start(settings(tmp_path, advertised="kafka.example:19092"))
        assert node.broker.advertised == ("kafka.example", 19092)
        await node.stop()

    uvloop.run(story())


def test_an_address_of_ipv6_is_said_with_brackets(
    tmp_path: Path, programs: list[Program]
) -> None:
    program = Program(tmp_path, listener="[::1]:0")
    programs.append(program)
    assert program.kafka.startswith("[::1]:")
    produce(program.kafka, "orders", [b"a"])
    file = tmp_path / "run" / "broker.json"
    wait_until(lambda: json.loads(file.read_bytes())["kafka"] == program.kafka)
    assert program.end(signal.SIGTERM) == 0


def test_the_status_file_tells_how_it_is(tmp_path: Path) -> None:
    file = tmp_path / "run" / "broker.json"

    def status() -> dict[str, object]:
        found = json.loads(file.read_bytes())
        assert isinstance(found, dict)
        return found

    async def story() -> None:
        node = await Node.start(settings(tmp_path))
        wire = await Wire.open(node.address)
        await wire.ask(ApiVersionsRequest("tests", "1"), 3)
        while not (file.exists() and (told := status())["requests"]):
            await asyncio.sleep(0.05)
        assert told["state"] == "serving"
        assert told["problems"] == []
        assert told["connections_open"] == 1
        assert told["requests"] == {"api_versions": 1}
        wire.close()
        await node.stop()
        assert status()["state"] == "stopping"

    uvloop.run(story())


def test_a_table_that_cannot_be_read_is_in_the_status(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Node.start(settings(tmp_path))
        await node.broker.topics.create("t", 1, {})
        log = Path(table_path(tmp_path / "tables", "t")) / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020d}.json").write_text("{")
        (log / f"{1:020d}.json").write_text("{")
        while not (states := node._facts().tables):
            await asyncio.sleep(0.01)
        assert (states[0].topic, states[0].readable) == ("t", False)
        assert states[0].why
        since_ms = states[0].since_ms
        assert node._facts().tables[0].since_ms == since_ms > 0
        await node.stop()

    uvloop.run(story())


def test_what_is_heavy_is_not_loaded_to_start() -> None:
    code = "import sys, broker.node, broker.cli.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({"numba", "pyarrow", "deltalake", "pandas", "pyspark"})
