"""Kafka's own command-line tools, of 4.3.1: how each ends, and lines that it prints.

The lines are among those that Apache Kafka 4.3.1 answers the same commands with.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.confluent import create, produce_all
from tests.support.foreign import Site
from tests.support.foreign_rows import program_row
from tests.support.patience import IDLE_S, STUCK_S

pytestmark = pytest.mark.foreign

VERSION = "4.3.1"
PACKAGE = "org.apache.kafka.tools."


@dataclass(frozen=True)
class Step:
    """What is typed, and what is printed: patterns, each found in the output."""

    words: str
    lines: tuple[str, ...] = ()
    code: int = 0
    stdin: str = ""


class Tool:
    """A tool, and what it is asked, one after the other, about a topic of 100 records.

    ``TOPIC`` stands for the topic, which the tool's group is named after too;
    ``FILES`` for a folder with files that name the topic.
    """

    def __init__(self, name: str, main: str, *steps: Step) -> None:
        self.name = name
        self.steps = steps
        self.main = main if main.startswith("kafka.") else PACKAGE + main

    def __str__(self) -> str:
        return self.name


FILES = {
    "offsets": {"partitions": [{"topic": "TOPIC", "partition": 0, "offset": 10}]},
    "move": {"topics": [{"topic": "TOPIC"}]},
    "plan": {"partitions": [{"topic": "TOPIC", "partition": 0, "replicas": [1]}]},
}
PERFORMANCE = "--topic TOPIC --num-records 1000 --record-size 100 --throughput -1"
ENTITY = "--entity-type topics --entity-name TOPIC"
GROUP = "--group TOPIC"
COMPATIBLE = (
    "--topic TOPIC-own --offsets-for-times-supported true --cluster-id-supported true "
    "--expect-record-too-large-exception false --num-cluster-nodes 1 "
    "--create-topics-supported true --describe-acls-supported true "
    "--describe-configs-supported true --idempotent-producer-supported true"
)

TOOLS = [
    Tool(
        "kafka-topics",
        "TopicCommand",
        Step(
            "--create --topic TOPIC-new --partitions 3 --config retention.ms=86400000",
            ("Created topic TOPIC-new",),
        ),
        Step(
            "--describe --topic TOPIC-new",
            ("PartitionCount: 3", "retention.ms=86400000", "Partition: 2\tLeader: 1"),
        ),
        Step("--alter --topic TOPIC-new --partitions 4"),
        Step("--describe --topic TOPIC-new", ("PartitionCount: 4", "Partition: 3")),
        Step("--list", (r"(?m)^TOPIC-new$", r"(?m)^TOPIC$")),
        Step(
            "--create --topic TOPIC-new",
            ("Topic 'TOPIC-new' already exists",),
            code=1,
        ),
        Step("--delete --topic TOPIC-new"),
        Step("--describe --topic TOPIC-new", ("does not exist as expected",), code=1),
    ),
    Tool(
        "kafka-configs",
        "kafka.admin.ConfigCommand",
        Step(
            f"--alter {ENTITY} --add-config retention.ms=7200000",
            ("Completed updating config for topic TOPIC",),
        ),
        Step(
            f"--describe {ENTITY}",
            (r"retention.ms=7200000 .*\{DYNAMIC_.....?_CONFIG:retention.ms=7200000",),
        ),
        Step(
            f"--alter {ENTITY} --delete-config retention.ms",
            ("Completed updating config for topic TOPIC",),
        ),
        Step(
            f"--alter {ENTITY} --add-config nonsense=1",
            ("Unknown topic config name: nonsense",),
            code=1,
        ),
        Step(
            "--describe --entity-type brokers --entity-name 1",
            ("Dynamic configs for broker 1 are:",),
        ),
        Step(
            "--describe --entity-type broker-loggers --entity-name 1",
            ("root=INFO sensitive=false",),
        ),
    ),
    Tool(
        "kafka-get-offsets",
        "GetOffsetShell",
        Step("--topic TOPIC", ("TOPIC:0:100",)),
        Step("--topic TOPIC --time earliest", (r"TOPIC:0:0\b",)),
        Step("--topic TOPIC --time earliest-local", (r"TOPIC:0:0\b",)),
        Step("--topic TOPIC --time 1000", (r"TOPIC:0:0\b",)),
    ),
    Tool(
        "kafka-console-producer",
        "ConsoleProducer",
        Step(
            "--topic TOPIC --compression-codec zstd --reader-property parse.key=true "
            "--reader-property parse.headers=true",
            stdin="h:1\tk\tv\n",
        ),
    ),
    Tool(
        "kafka-console-consumer",
        "consumer.ConsoleConsumer",
        Step(
            f"--topic TOPIC --from-beginning --max-messages 100 {GROUP}",
            (r"(?m)^0$", r"(?m)^99$", "Processed a total of 100 messages"),
        ),
    ),
    Tool(
        "kafka-consumer-groups",
        "consumer.group.ConsumerGroupCommand",
        Step(
            f"--reset-offsets {GROUP} --topic TOPIC --to-offset 40 --execute",
            (r"TOPIC\s+TOPIC\s+0\s+40",),
        ),
        Step("--list", (r"(?m)^TOPIC$",)),
        Step(f"--describe {GROUP}", (r"TOPIC\s+TOPIC\s+0\s+40\s+100\s+60",)),
        Step(f"--describe {GROUP} --state", (r"\(1\)\s+-\s+Empty\s+0",)),
        Step(
            f"--reset-offsets {GROUP} --topic TOPIC --shift-by 5 --dry-run",
            (r"TOPIC\s+TOPIC\s+0\s+45",),
        ),
        Step(
            f"--delete-offsets {GROUP} --topic TOPIC",
            (r"TOPIC\s+0\s+Successful",),
        ),
    ),
    Tool(
        "kafka-groups",
        "GroupsCommand",
        Step("--list", (r"GROUP\s+TYPE\s+PROTOCOL",)),
    ),
    Tool(
        "kafka-delete-records",
        "DeleteRecordsCommand",
        Step(
            "--offset-json-file FILES/offsets",
            (r"partition: TOPIC-0\s+low_watermark: 10",),
        ),
    ),
    Tool(
        "kafka-log-dirs",
        "LogDirsCommand",
        Step(
            "--describe --topic-list TOPIC",
            (r'"partition":"TOPIC-0","size":\d+,"offsetLag":0,"isFuture":false',),
        ),
    ),
    Tool(
        "kafka-features",
        "FeatureCommand",
        Step(
            "describe",
            (
                r"metadata.version .*FinalizedVersionLevel: 4.3-IV0",
                r"transaction.version .*FinalizedVersionLevel: 2",
            ),
        ),
        Step(
            "upgrade --feature transaction.version=2 --dry-run",
            ("transaction.version can be upgraded to 2",),
        ),
    ),
    Tool(
        "kafka-metadata-quorum",
        "MetadataQuorumCommand",
        Step(
            "describe --status", (r"ClusterId: +\S+", r"LeaderId: +1", "CurrentVoters")
        ),
        Step("describe --replication", (r"(?m)^1 .*Leader",)),
    ),
    Tool(
        "kafka-reassign-partitions",
        "reassign.ReassignPartitionsCommand",
        Step("--list", ("No partition reassignments found",)),
        Step(
            "--generate --broker-list 1 --topics-to-move-json-file FILES/move",
            ('"topic":"TOPIC","partition":0,"replicas":.1.,"log_dirs":."any".',),
        ),
        Step(
            "--execute --reassignment-json-file FILES/plan",
            ("Successfully started partition reassignment for TOPIC-0",),
        ),
        Step(
            "--verify --reassignment-json-file FILES/plan",
            ("Reassignment of partition TOPIC-0 is completed",),
        ),
    ),
    Tool(
        "kafka-leader-election",
        "LeaderElectionCommand",
        Step("--election-type preferred --all-topic-partitions"),
        Step(
            "--election-type preferred --topic TOPIC --partition 0",
            ("Valid replica already elected for partitions TOPIC-0",),
        ),
    ),
    Tool(
        "kafka-client-metrics",
        "ClientMetricsCommand",
        Step(
            "--alter --name TOPIC --metrics org.apache.kafka.producer. --interval 999",
            ("Altered client metrics config for TOPIC",),
        ),
        Step("--list", (r"(?m)^TOPIC$",)),
        Step(
            "--describe --name TOPIC",
            ("interval.ms=999", "metrics=org.apache.kafka.producer."),
        ),
        Step("--delete --name TOPIC", ("Deleted client metrics config for TOPIC",)),
    ),
    Tool(
        "kafka-broker-api-versions",
        "BrokerApiVersionsCommand",
        Step("", (r"Produce\(0\): 0 to 13", r"Fetch\(1\): \d+ to 18")),
    ),
    Tool(
        "kafka-verifiable-producer",
        "VerifiableProducer",
        Step("--topic TOPIC --max-messages 50", ('"sent":50,"acked":50',)),
    ),
    Tool(
        "kafka-verifiable-consumer",
        "VerifiableConsumer",
        Step(
            "--topic TOPIC --group-id TOPIC --max-messages 100 --reset-policy earliest",
            ('"maxOffset":99', '"offset":100}.,"success":true', '"shutdown_complete"'),
        ),
    ),
    Tool(
        "kafka-producer-perf-test",
        "ProducerPerformance",
        Step(PERFORMANCE, ("1000 records sent",)),
        Step(
            f"{PERFORMANCE} --transactional-id TOPIC --transaction-duration-ms 50",
            ("1000 records sent",),
        ),
    ),
    Tool(
        "kafka-consumer-perf-test",
        "ConsumerPerformance",
        Step("--topic TOPIC --num-records 100", (r", 100, \d",)),
    ),
    Tool(
        "kafka-e2e-latency",
        "EndToEndLatency",
        Step(
            "--topic TOPIC --num-records 100 --producer-acks all --record-size 100",
            ("Avg latency: ", "99.9th = "),
        ),
    ),
    Tool(
        "kafka-streams-application-reset",
        "StreamsResetter",
        Step(
            "--application-id TOPIC --input-topics TOPIC",
            ("Topic: TOPIC Partition: 0 Offset: 0", "Done."),
        ),
    ),
    Tool(
        "the client compatibility test",
        "ClientCompatibilityTest",
        Step(COMPATIBLE, (r"(?m)^SUCCESS",)),
    ),
]
CLUSTER = Tool(
    "kafka-cluster",
    "ClusterTool",
    Step("cluster-id", (r"Cluster ID: \S+",)),
    Step("list-endpoints", (r"(?m)^1\s.*broker",)),
)

TRANSACTIONS = Tool(
    "kafka-transactions",
    "TransactionsCommand",
    Step("list", (r"(?m)^TOPIC\s+1\s+\d+\s+Ongoing",)),
    Step("describe --transactional-id TOPIC", (r"TOPIC\s+\d+\s+0\s+Ongoing",)),
    Step(
        "describe-producers --topic TOPIC --partition 0",
        (r"(?m)^\d+\s+0\s+-1\s+0\s+\d+\s+100\b",),
    ),
    Step("find-hanging --broker-id 1", (r"Topic\s+Partition\s+ProducerId",)),
    Step("abort --topic TOPIC --partition 0 --start-offset 100"),
    Step(
        "describe-producers --topic TOPIC --partition 0",
        (r"(?m)^\d+\s+0\s+-?\d+\s+0\s+\d+\s+None",),
    ),
    Step("forceTerminateTransaction --transactionalId TOPIC"),
    Step("describe --transactional-id TOPIC", (r"TOPIC\s+\d+\s+\d+\s+Empty",)),
)


@contextmanager
def transaction_left_open(bootstrap: str, topic: str) -> Iterator[None]:
    """A transaction of the topic's name, with one record in it, while inside."""
    names = {"bootstrap.servers": bootstrap, "transactional.id": topic}
    producer = Producer(names | {"transaction.timeout.ms": 600_000})
    producer.init_transactions(IDLE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(IDLE_S) == 0
    yield
    del producer


def use(tool: Tool, programs: str, bootstrap: str, folder: Path) -> None:
    """AssertionError for the first step that does not go as it does with Kafka."""
    topic = f"tools-{tool.name.replace(' ', '-')}"
    create(bootstrap, topic)
    produce_all(bootstrap, topic, [(None, b"%d" % n, None, 0) for n in range(100)])
    for name, content in FILES.items():
        text = json.dumps({"version": 1} | content).replace("TOPIC", topic)
        (folder / name).write_text(text)
    with ExitStack() as open_ones:
        if tool is TRANSACTIONS:
            open_ones.enter_context(transaction_left_open(bootstrap, topic))
        for step in tool.steps:
            ask(tool, step, programs, bootstrap, topic, folder)


def ask(
    tool: Tool, step: Step, programs: str, bootstrap: str, topic: str, folder: Path
) -> None:
    words = step.words.replace("TOPIC", topic).replace("FILES", str(folder)).split()
    where = ["--bootstrap-server", bootstrap]
    typed = words + where if tool is CLUSTER else where + words
    done = subprocess.run(
        ["java", "-Xmx128m", "-cp", programs, tool.main, *typed],
        input=step.stdin,
        capture_output=True,
        text=True,
        timeout=STUCK_S,
    )
    said = done.stdout + done.stderr
    told = f"{step.words}: code {done.returncode}: {said[-500:]}"
    assert done.returncode == step.code, told
    for pattern in step.lines:
        wanted = pattern.replace("TOPIC", re.escape(topic))
        assert re.search(wanted, said), f"no {wanted} in {told}"


NO_COMMANDS = {"topic", "offset-json-file", "election-type", "application-id"}


def doings(tool: Tool) -> str:
    """The commands of a tool that were typed."""
    firsts = [step.words.split()[0].strip("-") for step in tool.steps if step.words]
    return (
        ", ".join(dict.fromkeys(w for w in firsts if w not in NO_COMMANDS))
        or "run on a topic"
    )


@pytest.mark.parametrize("tool", [*TOOLS, TRANSACTIONS, CLUSTER], ids=str)
def test_a_tool_says_what_it_says_of_kafka(
    site: Site, programs: str, tmp_path: Path, tool: Tool
) -> None:
    with program_row(f"{tool.name} {VERSION}", doings(tool)):
        use(tool, programs, site.bootstrap, tmp_path)
