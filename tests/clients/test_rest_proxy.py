"""A public client of Confluent's REST API v3 finds the plane as it knows the proxy.

It is kafka-mcp's, which somebody wrote for Confluent's proxy. Confluent's own generated
clients in Go are not served by the module proxy that this was made with.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.support.foreign import fetched
from tests.support.patience import Patience
from tests.support.process import WholePart

pytestmark = pytest.mark.foreign

PACKAGES = ("kafka-mcp==1.0.1", "agent-utilities==1.26.4")
PROGRAM = Path(__file__).parent / "python" / "rest_proxy.py"
NOT_V3 = frozenset(
    {
        "create_consumer",
        "subscribe_consumer",
        "consume_records",
        "commit_offsets",
        "delete_consumer",
    }
)
"""Of the proxy's older API, which is not here."""


class Api:
    """The client's methods, each called in its own process."""

    def __init__(self, site: Path, admin: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, admin],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(site), "HOME": str(site), "PATH": "/usr/bin:/bin"},
        )
        self.left = set(self._read()) - NOT_V3

    def __getattr__(self, name: str) -> Any:
        return lambda **arguments: self._ask(name, arguments)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, name: str, arguments: dict[str, Any]) -> Any:
        self.left.discard(name)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "it ended"
        return json.loads(line)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholePart]:
    part = WholePart(
        tmp_path_factory.mktemp("rest") / "data",
        "groups.initial_rebalance_delay_ms=0",
    )
    part.arguments.append("--no-compactor")
    part.start()
    yield part
    part.end()


@pytest.fixture
def api(up: WholePart, tmp_path: Path) -> Iterator[Api]:
    site = tmp_path / "site"
    words = (sys.executable, "-m", "pip", "install", "-q", "--target", str(site))
    fetched("PyPI", *words, *PACKAGES, cwd=tmp_path)
    client = Api(site, up.facts["admin"])
    yield client
    client.end()


def values_of(listed: Any) -> dict[str, Any]:
    return {one["name"]: one["value"] for one in listed["data"]}


def check_topics(api: Api) -> None:
    [cluster] = api.list_clusters()["data"]
    cluster_id = api.cluster_id()
    assert api.get_cluster()["cluster_id"] == cluster["cluster_id"] == cluster_id
    made = api.create_topic(
        topic="t", partitions_count=3, configs={"retention.ms": "100000"}
    )
    assert api.get_topic(topic="t") == made
    assert made["partitions_count"] == 3
    assert "t" in [one["topic_name"] for one in api.list_topics()["data"]]
    api.update_topic_config(topic="t", name="retention.ms", value=6000)
    said = {"cleanup.policy": "compact", "segment.ms": 7000, "preallocate": True}
    api.update_topic_configs(topic="t", configs=said)
    kept = values_of(api.list_topic_configs(topic="t"))
    assert kept["retention.ms"] == "6000"
    assert {name: kept[name] for name in said} == {
        "cleanup.policy": "compact",
        "segment.ms": "7000",
        "preallocate": "true",
    }
    numbers = [one["partition_id"] for one in api.list_partitions(topic="t")["data"]]
    assert numbers == [0, 1, 2]
    assert api.get_partition(topic="t", partition_id=1)["partition_id"] == 1


def check_records(api: Api) -> None:
    keyed = {"key": "k", "key_format": "STRING", "headers": [{"name": "h"}]}
    for value, kind, size in (
        ({"a": 1}, "JSON", 7),
        ("aGk=", "BINARY", 2),
        ("s", "STRING", 1),
    ):
        report = api.produce_record(
            topic="t", value=value, value_format=kind, partition_id=2, **keyed
        )
        assert report["error_code"] == 200, report
        assert (report["partition_id"], report["value"]["size"]) == (2, size)


def check_groups(api: Api, bootstrap: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["t"])
    count, patience = 0, Patience()
    while count < 3 and patience.lasts(count):
        count += len(consumer.consume(3 - count, 0.1))
    consumer.commit(asynchronous=False)
    assert [one["consumer_group_id"] for one in api.list_consumer_groups()["data"]] == [
        "g"
    ]
    assert api.get_consumer_group(group="g")["state"] == "STABLE"
    assert len(api.list_consumers(group="g")["data"]) == 1
    assert api.get_group_lag_summary(group="g")["total_lag"] == 0
    lags = {one["partition_id"]: one for one in api.get_group_lags(group="g")["data"]}
    assert (lags[2]["current_offset"], lags[2]["log_end_offset"]) == (3, 3)
    consumer.close()


def check_brokers_and_acls(api: Api) -> None:
    [broker] = api.list_brokers()["data"]
    named = {"broker_id": broker["broker_id"]}
    assert api.get_broker(**named) == broker
    assert "log.retention.ms" in values_of(api.list_broker_configs(**named))
    acl = {
        "resource_type": "TOPIC",
        "resource_name": "t",
        "pattern_type": "LITERAL",
        "principal": "User:a",
        "operation": "READ",
        "permission": "ALLOW",
    }
    for refused in (
        api.list_acls(),
        api.create_acl(host="*", **acl),
        api.delete_acls(host="*", **acl),
    ):
        assert "40002" in refused["error"], refused
        assert "No Authorizer is configured" in refused["error"]


def test_each_of_its_operations_is_answered(api: Api, up: WholePart) -> None:
    check_topics(api)
    check_records(api)
    check_groups(api, up.bootstrap)
    check_brokers_and_acls(api)
    assert api.delete_topic(topic="t") == {"status": "success"}
    assert "40403" in api.get_topic(topic="t")["error"]
    assert not api.left, "of its operations these were not asked for"
