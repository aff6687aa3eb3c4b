"""The requests of ``admin_corners`` that ask for configurations, and change them."""

import time
from collections.abc import Iterator

from broker.protocol.messages import alter_configs as whole
from broker.protocol.messages import incremental_alter_configs as single
from broker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from broker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.admin_corners import Asker, Case
from tests.support.reached import telling

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
LONG = "x" * 32_000
Change = tuple[str, int, str | None]


def altered(
    kind: int, name: str, *changes: Change, only_asked: bool = False
) -> single.IncrementalAlterConfigsRequest:
    configs = [single.AlterableConfig(*change) for change in changes]
    resource = single.AlterConfigsResource(kind, name, configs)
    return single.IncrementalAlterConfigsRequest([resource], only_asked)


def replaced(
    kind: int, name: str, only_asked: bool = False, **configs: str | None
) -> whole.AlterConfigsRequest:
    given = [
        whole.AlterableConfig(key.replace("_", "."), value)
        for key, value in configs.items()
    ]
    resource = whole.AlterConfigsResource(kind, name, given)
    return whole.AlterConfigsRequest([resource], only_asked)


def described(kind: int, name: str, *keys: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    return DescribeConfigsRequest([resource], include_synonyms=True)


def only_asked(
    kind: int, names: tuple[str, ...], changes: list[Change]
) -> Iterator[Case]:
    """Each change of each resource, none of them made."""
    for name in names:
        for change in changes:
            request = altered(kind, name, change, only_asked=True)
            yield f"{kind} {name!r}: {change}", request, (0, 1)


def changed(asker: Asker, case: str, request: object) -> Iterator[Case]:
    """A change that is made; a Kafka's brokers follow it a moment later."""
    yield case, request, (1,)
    time.sleep(asker.settle_s)


def broker_keys(asker: Asker) -> Iterator[Case]:
    retention = "log.retention.ms"
    one_value: list[Change] = [(retention, SET, "1000")]
    yield from only_asked(
        BROKER, ("1", "", "9", "x", "01", " 1", "-1", "1.0"), one_value
    )
    yield from only_asked(
        BROKER,
        ("1", ""),
        [
            (retention, SET, "x"), (retention, SET, None), (retention, SET, ""),
            (retention, APPEND, "1"), (retention, SUBTRACT, "1"), (retention, 7, "1"),
            (retention, DELETE, "zz"), ("no.such", SET, "x"), ("no.such", DELETE, None),
            ("no.such", APPEND, "x"), ("num.partitions", SET, "3"),
            ("num.partitions", DELETE, None), ("broker.id", SET, "3"),
            ("node.id", SET, "x"), ("log.retention.hours", SET, "3"),
            ("log.cleanup.policy", APPEND, "compact"),
            ("log.cleanup.policy", SUBTRACT, "delete"),
            ("max.connections", SET, "10"), ("max.connections", SET, "x"),
            ("num.io.threads", SET, "0"), ("num.network.threads", SET, "x"),
            ("message.max.bytes", SET, "-1"), ("message.max.bytes", SET, "9999999999"),
            ("min.insync.replicas", SET, "0"), ("compression.type", SET, "gzip"),
            ("log.segment.bytes", SET, "1"), ("producer.id.expiration.ms", SET, "0"),
            ("retention.ms", SET, "1"), ("", SET, "x"),
            ("auto.create.topics.enable", SET, "false"),
            ("advertised.listeners", SET, "PLAINTEXT://h:1"),
            ("log.message.timestamp.type", SET, "LogAppendTime"),
            ("log.message.timestamp.type", SET, "foo"), (LONG, SET, "1"),
            ("log.preallocate", SET, "maybe"),
        ],
    )  # fmt: skip
    twice: list[Change] = [(retention, SET, "1"), (retention, SET, "2")]
    mixed: list[Change] = [(retention, SET, "1"), ("num.partitions", SET, "3")]
    yield "twice", altered(BROKER, "1", *twice, only_asked=True), (0, 1)
    yield "one of two", altered(BROKER, "1", *mixed, only_asked=True), (0, 1)
    yield "nothing", altered(BROKER, "1", only_asked=True), (0, 1)
    for name in ("1", "9", "x"):
        for key, value in (("log_retention_ms", "5"), ("num_partitions", "3")):
            asked = replaced(BROKER, name, True, **{key: value})
            yield f"whole, {name!r} {key}", asked, range(3)
    yield "whole, null", replaced(BROKER, "1", True, log_retention_ms=None), range(3)
    yield "whole, unknown", replaced(BROKER, "1", True, no_such="5"), range(3)
    for name in ("9", "x"):
        yield f"told, {name!r}", described(BROKER, name, "node.id"), range(1, 5)


def broker_changes(asker: Asker) -> Iterator[Case]:
    key = "log.cleaner.min.compaction.lag.ms"
    told = described(BROKER, "1", key, "no.such")
    of_all = described(BROKER, "", key, "no.such")
    topic, _ = asker.create("defaults")
    of_topic = described(TOPIC, topic, "min.compaction.lag.ms")
    for number, (name, change) in enumerate(
        [
            ("", (key, SET, "20")),
            ("1", (key, SET, "10")),
            ("1", ("no.such", SET, "secret")),
            ("", ("no.such", SET, "secret")),
            ("1", (key, DELETE, None)),
            ("", (key, DELETE, None)),
            ("1", ("no.such", DELETE, None)),
            ("", ("no.such", DELETE, None)),
        ]
    ):
        yield from changed(asker, f"{number}", altered(BROKER, name, change))
        yield f"{number} told", told, (2, 4)
        yield f"{number} told of all", of_all, (4,)
        yield f"{number} told of a topic", of_topic, (4,)
    whole_one = replaced(BROKER, "1", **{key.replace(".", "_"): "30"})
    yield from changed(asker, "whole", whole_one)
    yield "whole, told", told, (4,)
    yield from changed(asker, "whole, none", replaced(BROKER, "1"))
    yield "whole, none, told", told, (4,)


def loggers(asker: Asker) -> Iterator[Case]:
    found = asker.ask(described(LOGGER, "1"), 4).results[0].configs
    mine = next(one.name for one in found if one.name != "root")
    asker.stand_ins[mine] = "LOGGER"
    yield from only_asked(
        LOGGER,
        ("1", "", "9", "x"),
        [
            (mine, SET, "DEBUG"), (mine, SET, "debug"), (mine, SET, "FOO"),
            (mine, SET, ""), (mine, SET, None), (mine, DELETE, None),
            (mine, APPEND, "INFO"), (mine, SUBTRACT, "INFO"), ("nope", SET, "INFO"),
            ("nope", DELETE, None), ("root", SET, "WARN"), ("root", DELETE, None),
            ("", SET, "INFO"),
            *[(mine, SET, level) for level in ("TRACE", "FATAL", "OFF", "ALL", "WARN")],
        ],
    )  # fmt: skip
    for change in ((mine, SET, "DEBUG"), (mine, DELETE, None)):
        yield f"{change}", altered(LOGGER, "1", change), (1,)
        yield f"{change}, told", described(LOGGER, "1", mine, "nope"), (1, 4)
    both: list[Change] = [(mine, SET, "DEBUG"), ("nope", SET, "INFO")]
    yield "one of two", altered(LOGGER, "1", *both), (1,)
    yield "one of two, told", described(LOGGER, "1", mine), (4,)
    for name in ("", "9", "x"):
        yield f"told, {name!r}", described(LOGGER, name), (4,)
    for name in ("1", "9"):
        yield f"whole, {name!r}", replaced(LOGGER, name, True, root="INFO"), range(3)


def client_metrics(asker: Asker) -> Iterator[Case]:
    interval, match, metrics = "interval.ms", "match", "metrics"
    yield from only_asked(
        METRICS,
        ("s", ""),
        [
            *[(interval, SET, ms) for ms in ("99", "100", "3600000", "3600001", "x")],
            (interval, SET, None), (interval, DELETE, None), (interval, APPEND, "1"),
            *[(metrics, SET, some) for some in ("a,b", "", "*", "a,,b", "a,a")],
            (metrics, APPEND, "c"), (metrics, SUBTRACT, "c"), (metrics, DELETE, None),
            *[
                (match, SET, pattern)
                for pattern in (
                    "client_id=a.*", "client_id=(", "foo=a", "client_id", "a=b=c", "",
                    "client_software_name=x,client_source_port=1", "client_id=", "=a",
                    "client_id=a,client_id=b", "client_id=a,,", "client_id= a ",
                )
            ],
            ("nope", SET, "1"), ("nope", DELETE, None),
        ],
    )  # fmt: skip
    yield "long", altered(METRICS, LONG, (interval, SET, "100"), only_asked=True), (1,)
    name = f"s-{asker.run}"
    for number, changes in enumerate(
        [
            [
                (interval, SET, "1000"),
                (metrics, SET, "a,b"),
                (match, SET, "client_id=a"),
            ],
            [(metrics, DELETE, None)],
            [(match, DELETE, None), (interval, SET, "2000")],
            [(interval, DELETE, None)],
        ]
    ):
        yield from changed(asker, f"{number}", altered(METRICS, name, *changes))
        yield f"{number}, told", described(METRICS, name), (1, 4)
        yield f"{number}, listed", ListConfigResourcesRequest([METRICS]), (0, 1)
    yield from changed(asker, "whole", replaced(METRICS, name, interval_ms="3000"))
    yield "whole, told", described(METRICS, name, "interval.ms", "nope"), (4,)
    yield from changed(asker, "whole, none", replaced(METRICS, name))
    yield "whole, none, told", described(METRICS, name), (4,)
    yield "told, nameless", described(METRICS, ""), (4,)


def group_keys(asker: Asker) -> Iterator[Case]:
    session, beat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    reset = "share.auto.offset.reset"
    yield from only_asked(
        GROUP,
        ("g", ""),
        [
            *[(session, SET, ms) for ms in ("50000", "1", "99999999", "x")],
            (session, APPEND, "1"), (session, SET, None), (beat, SET, "6000"),
            (beat, SET, "1"), (reset, SET, "earliest"), (reset, SET, "foo"),
            (reset, SET, "by_duration:PT1H"),
            ("share.isolation.level", SET, "read_committed"),
            ("share.record.lock.duration.ms", SET, "1"),
            ("share.renew.acknowledge.enable", SET, "maybe"),
            ("streams.num.standby.replicas", SET, "9"), ("nope", SET, "1"),
            ("nope", DELETE, None), ("nope", APPEND, "1"),
        ],
    )  # fmt: skip
    yield "long", altered(GROUP, LONG, (beat, SET, "6000"), only_asked=True), (1,)
    name = f"g-{asker.run}"
    yield "before, told", described(GROUP, name), (1, 4)
    for change in ((beat, SET, "6000"), (beat, DELETE, None)):
        yield from changed(asker, f"{change[1]}", altered(GROUP, name, change))
        yield f"{change[1]}, told", described(GROUP, name, beat, "nope"), (1, 4)
        yield f"{change[1]}, listed", ListConfigResourcesRequest([GROUP]), (1,)
    yield "told, nameless", described(GROUP, ""), (4,)


def other_kinds(asker: Asker) -> Iterator[Case]:
    for kind in (0, 1, 3, 5, 64, -1, 127):
        change = ("a", SET, "b")
        yield f"{kind}", altered(kind, "x", change, only_asked=True), (0, 1)
        yield f"whole, {kind}", replaced(kind, "x", True, a="b"), range(3)
        for kinds in ([kind], [TOPIC, kind]):
            yield f"listed, {kinds}", ListConfigResourcesRequest(kinds), (1,)
    asker.create("one")
    yield "listed, everything", ListConfigResourcesRequest([]), (1,)
    for kinds in ([BROKER], [LOGGER], [BROKER, BROKER, LOGGER]):
        yield f"listed, {kinds}", ListConfigResourcesRequest(kinds), (1,)
    for change in (
        ("retention.ms", SET, None), ("retention.ms", SET, "x"),
        ("preallocate", SET, "x"), ("min.cleanable.dirty.ratio", SET, "x"),
        ("message.timestamp.type", SET, "x"), ("nope", SET, "x"),
    ):  # fmt: skip
        yield f"topic {change}", altered(TOPIC, "nowhere", change), (0, 1)


APIS = (
    broker_keys, broker_changes, loggers, client_metrics, group_keys, other_kinds,
)  # fmt: skip


@telling
def table(bootstrap: str, settle_s: float = 0.0) -> list[str]:
    """What a broker answers, as sorted lines ``case   [versions]: answer``."""
    with Asker(bootstrap, settle_s) as asker:
        for api in APIS:
            asker.play(api.__name__, api(asker))
        return asker.table()
