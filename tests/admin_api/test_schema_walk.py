"""schemathesis walks the OpenAPI document: no answer is a 5xx.

The short form of `make fuzz-rest`: each operation is asked a few times with what fits
the document and with what does not. What is made up is always the same (derandomized,
no database of examples), so that a failure is one wherever it is run again.
"""

import asyncio
from collections import Counter

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from tests.support.confluent import produce_all

METHODS = ("get", "put", "post", "patch", "delete")
EXAMPLES = 2
"""Of each operation, in each mode. `make fuzz-rest` asks for a hundred."""
KNOWN = ("cluster_id", "topic_name")
"""Made up they would hardly ever be there, and all else would be a 404."""


@pytest.fixture(scope="module")
def schema(plane):
    return schemathesis.openapi.from_dict(plane.get("/openapi.json").json())


@pytest.fixture(scope="module")
def known(plane):
    plane.create("fuzzed")
    produce_all(plane.bootstrap, "fuzzed", [(None, b"v", None, 0)])
    return {
        "cluster_id": plane.get(plane.cluster).json()["cluster_id"],
        "topic_name": "fuzzed",
    }


def fixed(operation, known):
    """What of an operation's path is not made up; the topic is not to be deleted."""
    keeps = (operation.method, operation.path.rpartition("/")[2])
    names = KNOWN[:1] if keeps == ("delete", "{topic_name}") else KNOWN
    return {
        name: known[name] for name in names if f"{{{name}}}" in operation.path
    } or None


def made_up(operation, mode, known):
    """Cases of one operation, always the same."""
    cases, answers = [], operation.definition.raw["responses"]
    streams = "text/event-stream" in answers.get("200", {}).get("content", {})

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(mode, path_parameters=fixed(operation, known)))
    def collect(case):
        if streams:  # until nobody listens any more
            case.query = {**(case.query or {}), "duration_s": 0}
        cases.append(case)

    try:
        collect()
    except Unsatisfiable:  # of what takes nothing, nothing is wrong
        assert mode is GenerationMode.NEGATIVE, operation.label
    return cases


def sent(client, case):
    """A case as a request."""
    given = case.as_transport_kwargs(base_url="http://plane")
    taken = {"method", "url", "params", "headers", "json", "data", "files"}
    more = {name: value for name, value in given.items() if name in taken}
    data = more.pop("data", None)
    if isinstance(data, bytes | str):
        more["content"] = data
    elif data is not None:
        more["data"] = data
    return client.request(**more)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("method", METHODS)
def test_nothing_that_schemathesis_makes_up_is_a_fault_of_the_plane(
    plane, schema, known, method, mode
):
    count, faults = Counter(), []

    async def story():
        transport = httpx.ASGITransport(app=plane.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:
            for case in cases:
                try:
                    answer = await sent(client, case)
                except httpx.InvalidURL:
                    continue  # longer than this client sends
                count[case.operation.label] += 1
                count[answer.status_code // 100] += 1
                if answer.status_code >= 500:
                    faults.append((case.as_curl_command(), answer.text[:300]))

    found = [one.ok() for one in schema.get_all_operations()]
    operations = [one for one in found if one.method == method]
    cases = [case for one in operations for case in made_up(one, mode, known)]
    asyncio.run(story())
    print(len(cases), {k: v for k, v in count.items() if isinstance(k, int)})
    assert not faults, faults[:5]
    if mode is GenerationMode.POSITIVE:
        assert operations
        assert all(count[one.label] for one in operations)
    if mode is GenerationMode.POSITIVE and method == "get":
        assert count[2] > len(operations) / 2
