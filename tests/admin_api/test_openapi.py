"""Every operation of the OpenAPI document, walked with what it does not expect.

Whatever stands in a path, a query or a body: the answer is never a 5xx, it is one that
the document names, and an error is a code and a sentence.
"""

import asyncio
import json
import re
from typing import Any

import httpx
import pytest

from admin_api.lake import Lake
from tests.support.confluent import produce_all
from tests.support.tables import Writer

METHODS = ("get", "put", "post", "patch", "delete")
NASTY: dict[str, tuple[Any, ...]] = {
    "string": ("", "a b", "%00", "%ff", "-", "x" * 300, "%F0%9F%92%A5", "a%0Ab", "~"),
    "integer": ("x", "-1", "99", "2147483648", "9" * 40, "1.5", "%00"),
    "boolean": ("x", "%00"),
}
WRONG = (
    None,
    "x",
    "\0",
    -1,
    0,
    32_767,
    2**31 - 1,
    10**30,
    1.5,
    True,
    [],
    {},
    [{}],
    "x" * 300,
    "\ud83d",
)
RAW = (b"", b"{", b"[]", b"null", b"\xff", b"1e999", b"[" * 20_000, b"NaN")
JSON = {"content-type": "application/json"}
ENTRY = {"name": "retention.ms", "value": "5000"}
ACL = {
    "resource_type": "TOPIC",
    "resource_name": "t",
    "pattern_type": "LITERAL",
    "principal": "User:a",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
DATA = {"type": "STRING", "data": "v"}
RECORD = {"key": DATA, "value": DATA, "headers": [{"name": "h"}], "partition_id": 0}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("post", "/topics"): {"topic_name": "made", "configs": [ENTRY]},
    ("patch", "/topics/{topic_name}"): {"partitions_count": 2},
    ("post", "configs:alter"): {"data": [ENTRY], "validate_only": True},
    ("post", "/topics/-/configs:alter"): {
        "data": [{"topic_name": "walked", "configs": [ENTRY]}]
    },
    ("put", "configs/{name}"): {"value": "5000"},
    ("post", "/acls"): ACL,
    ("post", "/acls:batch"): {"data": [ACL]},
    ("post", "/records"): RECORD,
    ("post", "/records:batch"): {"entries": [RECORD | {"id": "a"}]},
    ("put", "/loggers/{logger_name}"): {"level": "info"},
    ("post", ":reset-offsets"): {
        "topics": [{"topic_name": "walked", "partitions": [0]}],
        "to": "OFFSET",
        "value": 1,
    },
}
"""What each operation with a body takes, by how its path ends; the longest counts."""
_GROUP, _TOPIC = "/consumer-groups/{consumer_group_id}", "/topics/{topic_name}"
_CONSUMER = _GROUP + "/consumers/{consumer_id}"
_PARTITION = "/partitions/{partition_id}"
_VALUE = ("get", "put", "delete")
PROXY = [
    ("/acls", ("get", "post", "delete")),
    ("/acls:batch", ("post",)),
    ("/broker-configs", ("get",)),
    ("/broker-configs:alter", ("post",)),
    ("/broker-configs/{name}", _VALUE),
    ("/brokers", ("get",)),
    ("/brokers/{broker_id}", ("get",)),
    ("/brokers/-/configs", ("get",)),
    ("/brokers/{broker_id}/configs", ("get",)),
    ("/brokers/{broker_id}/configs:alter", ("post",)),
    ("/brokers/{broker_id}/configs/{name}", _VALUE),
    ("/brokers/{broker_id}/partition-replicas", ("get",)),
    ("/consumer-groups", ("get",)),
    (_GROUP, ("get",)),
    (f"{_GROUP}/consumers", ("get",)),
    (f"{_GROUP}/lag-summary", ("get",)),
    (f"{_GROUP}/lags", ("get",)),
    (f"{_GROUP}/lags/{{topic_name}}{_PARTITION}", ("get",)),
    (_CONSUMER, ("get",)),
    (f"{_CONSUMER}/assignments", ("get",)),
    (f"{_CONSUMER}/assignments/{{topic_name}}{_PARTITION}", ("get",)),
    ("/topics", ("get", "post")),
    (_TOPIC, ("get", "patch", "delete")),
    (f"{_TOPIC}/configs", ("get",)),
    (f"{_TOPIC}/configs:alter", ("post",)),
    (f"{_TOPIC}/configs/{{name}}", _VALUE),
    (f"{_TOPIC}/partitions", ("get",)),
    (f"{_TOPIC}{_PARTITION}", ("get",)),
    ("/topics/-/partitions/-/reassignment", ("get",)),
    (f"{_TOPIC}/partitions/-/reassignment", ("get",)),
    (f"{_TOPIC}{_PARTITION}/reassignment", ("get",)),
    (f"{_TOPIC}{_PARTITION}/replicas", ("get",)),
    (f"{_TOPIC}{_PARTITION}/replicas/{{broker_id}}", ("get",)),
    ("/topics/-/configs", ("get",)),
    (f"{_TOPIC}/records", ("post",)),
]
"""All paths below a cluster in the document of Confluent's REST Proxy."""
LONG = ("x" * 32_767, "x" * 32_768, "x" * 60_000)
"""A Kafka string's length is an int16: at its bound, and behind it."""
LONGER = (*LONG, "\u00fc" * 16_384, "x" * 65_536, "x" * 65_540)
"""Bytes count, and with some of them the int16 is 0 or 4. No URL is so long."""


def operations(document):
    """(method, path, operation), what deletes the walked topic last."""
    found = [
        (method, path, item[method])
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]
    return sorted(found, key=lambda one: (one[0] == "delete", one[1], one[0]))


def body_of(method, path):
    ends = [end for verb, end in BODIES if verb == method and path.endswith(end)]
    return BODIES[method, max(ends, key=len)]


def mutated(body):
    """The body with one thing in it wrong, on each of its levels."""
    for name, value in body.items():
        for wrong in WRONG:
            yield body | {name: wrong}
        inner = value[0] if isinstance(value, list) else value
        if isinstance(inner, dict):
            for one in mutated(inner):
                yield body | {name: [one] if isinstance(value, list) else one}
        yield {other: body[other] for other in body if other != name}
    yield body | {"nobody_knows": 1}


def answers(operation):
    """The media types of what it answers when all is well."""
    return operation["responses"].get("200", {}).get("content", {})


def urls(path, operation, known):
    """The path with everything right, and with one thing wrong; what streams ends."""
    ends = "duration_s=0" if "text/event-stream" in answers(operation) else ""
    yield f"{path.format(**known)}?{ends}"
    for parameter in operation.get("parameters", ()):
        name, kinds = parameter["name"], parameter["schema"]
        kind = kinds.get("type") or kinds.get("anyOf", [{}])[0].get("type", "string")
        for value in NASTY.get(kind, NASTY["string"]):
            if value == "" and parameter["in"] == "path":
                continue  # that is another path
            if parameter["in"] == "path":
                yield f"{path.format(**(known | {name: value}))}?{ends}"
            else:
                yield f"{path.format(**known)}?{name}={value}&{ends}"


def encoded(body):
    """A body as JSON; half a surrogate pair is written as an escape."""
    return {"content": json.dumps(body).encode(), "headers": JSON}


def requests_of(method, path, operation, known):
    """Every request to make of an operation."""
    body = body_of(method, path) if "requestBody" in operation else None
    for url in urls(path, operation, known):
        yield url, {} if body is None else encoded(body)
    if body is not None:
        url = path.format(**known)
        yield url, {"content": b"{}", "headers": {"content-type": "text/plain"}}
        for raw in RAW:
            yield url, {"content": raw, "headers": JSON}
        for wrong in mutated(body):
            yield url, encoded(wrong)


@pytest.fixture(scope="module")
def document(plane):
    return plane.get("/openapi.json").json()


@pytest.fixture(scope="module")
def known(plane):
    """What stands for each parameter of a path, and is there."""
    plane.create("walked")
    produce_all(plane.bootstrap, "walked", [(None, b"v", None, 0)])
    topic = Lake(plane.data_dir).topic("walked")
    Writer(str(plane.data_dir / "tables"), "walked", topic.id.hex()).add(0, 0, 1)
    cluster = plane.get(plane.cluster).json()
    return {
        "cluster_id": cluster["cluster_id"],
        "broker_id": cluster["controller"]["related"].rsplit("/", 1)[1],
        "topic_name": "walked",
        "partition_id": "0",
        "consumer_group_id": "walkers",
        "consumer_id": "walker",
        "name": "retention.ms",
        "operation_id": "1",
        "logger_name": "lakelog.network",
    }


def asked_all(app, wanted):
    """The answers to (method, url, more), one after the other."""

    async def story():
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://plane"
        ) as client:
            return [
                await client.request(method, url, **more)
                for method, url, more in wanted
            ]

    return asyncio.run(story())


def told_in_words(answer):
    said = answer.json()
    return (
        said.keys() == {"error_code", "message"}
        and str(said["error_code"]).startswith(str(answer.status_code))
        and len(said["message"]) > 5
    )


def test_nothing_that_is_asked_is_a_fault_of_the_plane(plane, document, known):
    wrong, count = [], 0
    for method, path, operation in operations(document):
        named = set(operation["responses"])
        wanted = [(method, *one) for one in requests_of(method, path, operation, known)]
        for (_, url, more), answer in zip(
            wanted, asked_all(plane.app, wanted), strict=True
        ):
            status, count = answer.status_code, count + 1
            right = status < 400 or told_in_words(answer)
            documented = str(status) in named or (status >= 400 and "4XX" in named)
            if status >= 500 or not right or not documented:
                wrong.append((method, url[:200], str(more)[:200], answer.text[:200]))
    assert not wrong, "\n".join(map(str, wrong[:10]))
    assert count > 1000


def with_texts(body, text):
    """The body with each text in it, and each name of a field, once so long."""
    for name, value in body.items():
        inner = value[0] if isinstance(value, list) else value
        if isinstance(inner, str):
            yield body | {name: [text] if isinstance(value, list) else text}
        elif isinstance(inner, dict):
            for one in with_texts(inner, text):
                yield body | {name: [one] if isinstance(value, list) else one}
    yield body | {text: 1}


def long_requests(method, path, operation, known):
    """Every request of an operation that has one text so long."""
    body = body_of(method, path) if "requestBody" in operation else None
    needed = [
        f"{one['name']}={one['schema'].get('examples', ['ANY'])[0]}"
        for one in operation.get("parameters", ())
        if one["in"] == "query" and one["required"]
    ]
    if "text/event-stream" in answers(operation):
        needed.append("duration_s=0")
    for parameter in operation.get("parameters", ()):
        for text in LONG:
            if parameter["in"] == "path":
                url = f"{path.format(**(known | {parameter['name']: text}))}?"
            else:
                url = f"{path.format(**known)}?{parameter['name']}={text}&"
            yield url + "&".join(needed), {} if body is None else encoded(body)
    for text in LONGER if body is not None else ():
        for wrong in with_texts(body, text):
            yield f"{path.format(**known)}?{'&'.join(needed)}", encoded(wrong)


def test_a_text_too_long_for_kafka_disturbs_nobody_else(plane, document, known):
    """librdkafka would write another length, and the broker end the connection that
    all requests share."""

    async def asks_on(client, others):
        while True:
            others.append(await client.get(f"/v3/clusters/{known['cluster_id']}/acls"))
            others.append(await client.get("/v3/clusters"))
            await asyncio.sleep(0.01)

    async def story():
        transport = httpx.ASGITransport(app=plane.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://plane"
        ) as client:
            others, wrong, count = [], [], 0
            asking = asyncio.create_task(asks_on(client, others))
            for method, path, operation in operations(document):
                for url, more in long_requests(method, path, operation, known):
                    answer = await client.request(method, url, **more)
                    count += 1
                    right = answer.status_code < 400 or told_in_words(answer)
                    if answer.status_code >= 500 or not right:
                        wrong.append((method, path, url[:150], answer.text[:200]))
            asking.cancel()
            return others, wrong, count

    others, wrong, count = asyncio.run(story())
    assert not wrong, (len(wrong), wrong[:10])
    broken = [one.text[:200] for one in others if one.status_code not in (200, 400)]
    assert not broken, (len(broken), broken[:5])
    assert count > 500
    assert len(others) > 100


def test_every_operation_is_explained(document):
    for method, path, operation in operations(document):
        assert operation["summary"], (method, path)
        assert operation["description"], (method, path)
        if "requestBody" in operation:
            assert body_of(method, path)


def test_every_operation_of_confluents_document_is_here(document):
    """``api/v3/openapi.yaml`` of kafka-rest, which its clients are generated from."""
    below = "/v3/clusters/{cluster_id}"
    wanted = {(f"{below}{path}", verb) for path, verbs in PROXY for verb in verbs}
    wanted |= {("/v3/clusters", "get"), (below, "get")}
    assert wanted - {(path, verb) for verb, path, _ in operations(document)} == set()


def test_every_shape_has_a_name_that_generated_clients_can_use(document):
    """Two classes of one name would be told apart by the modules that they are in."""
    odd = [name for name in document["components"]["schemas"] if not name.isalnum()]
    assert odd == []


def test_every_operation_has_a_short_name_of_its_own(document):
    """It is a function in what is generated from the document."""
    names = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    ]
    assert len(set(names)) == len(names) > 70
    assert [name for name in names if not re.fullmatch("[a-z_]{4,32}", name)] == []


def test_without_a_broker_all_of_kafka_is_a_503_with_the_reason(lonely, document):
    async def story():
        transport = httpx.ASGITransport(app=lonely.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://plane", timeout=None
        ) as client:
            asked = [
                client.request(method, path.format_map(Anything()), json=body)
                for method, path, body in wanted
            ]
            return [await client.get("/livez"), *await asyncio.gather(*asked)]

    wanted = [
        (method, path, body_of(method, path) if "requestBody" in operation else None)
        for method, path, operation in operations(document)
        if path.startswith("/v3/")
    ]
    alive, *answers = asyncio.run(story())
    assert alive.status_code == 200
    for one, answer in zip(wanted, answers, strict=True):
        assert answer.status_code == 503, (one, answer.text)
        assert answer.json()["error_code"] == 50302
        assert len(answer.json()["message"]) > 10


class Anything(dict):
    """A number for each parameter, which is a name as well."""

    def __missing__(self, _):
        return "1"
