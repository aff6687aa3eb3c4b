"""Bodies have a limit where they are gathered, and none where they are streamed."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from admin_api import bodies
from admin_api.bodies import BODY_BYTES_MAX, VALUES_MAX, BodyLimit

MIB = 1 << 20
TOO_LONG = BODY_BYTES_MAX + 1
JSON = {"content-type": "application/json"}


def check_values(text):
    asyncio.run(bodies.check_values(text))


async def pieces(size):
    for first in range(0, size, MIB):
        yield b" " * min(MIB, size - first)


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize(
    "path", ["topics", "topics/bodies/records:batch", "topics/bodies/configs:alter"]
)
def test_a_body_that_is_too_long_is_a_413(plane, path, announced):
    url = f"{plane.cluster}/{path}"
    if "bodies" not in plane.get(f"{plane.cluster}/topics").text:
        plane.create("bodies")
    body = b" " * TOO_LONG if announced else pieces(TOO_LONG)
    answer = plane.ask("POST", url, content=body)
    assert (answer.status_code, answer.json()["error_code"]) == (413, 413), answer.text
    assert str(BODY_BYTES_MAX) in answer.json()["message"]


def test_a_body_as_long_as_allowed_is_read(plane):
    name = b'{"topic_name": "long-body"}'
    body = name + b" " * (BODY_BYTES_MAX - len(name))
    url = f"{plane.cluster}/topics"
    answer = plane.ask("POST", url, content=body, headers=JSON)
    assert answer.status_code == 201, answer.text


MANY = VALUES_MAX // 2 + 1
TINY = {
    "lists": b"[" + b"[]," * MANY + b"0]",
    "objects": b"[" + b'{"a":0},' * MANY + b"0]",
    "after a text": b'["\\"", ' + b"0," * 2 * MANY + b'"' + b'"]',
}


@pytest.mark.parametrize("values", TINY)
@pytest.mark.parametrize("path", ["", "/bodies/records:batch", "/bodies/records"])
def test_more_values_than_may_be_parsed_are_a_413(plane, path, values):
    if "bodies" not in plane.get(f"{plane.cluster}/topics").text:
        plane.create("bodies")
    url = f"{plane.cluster}/topics{path}"
    body = b'{"value": ' + TINY[values] + b"}"
    answer = plane.ask("POST", url, content=body, headers=JSON)
    assert answer.status_code == 413, answer.text
    assert answer.json()["error_code"] == 413
    assert str(VALUES_MAX) in answer.json()["message"]


def test_what_looks_like_values_in_a_text_is_no_value():
    text = b'{"\\\\": "' + b",[{:" * VALUES_MAX + b'\\""'
    check_values(text + b"," * (VALUES_MAX - 2) + b"}")
    with pytest.raises(HTTPException):
        check_values(text + b"," * (VALUES_MAX - 1) + b"}")


def test_a_text_that_does_not_end_is_looked_at_once():
    """Not once more from each quote in it, which is the square of its length."""
    text = b'{"a": "' + b"," * VALUES_MAX + b'", "b": "' + b'\\"' * (4 << 20)
    check_values(text)
    check_values(text + b"\\")


def test_counting_the_values_of_a_long_body_gives_way():
    texts = b'""' * (VALUES_MAX // 2)
    steps = bodies._checked(texts + b'"' + b"," * (VALUES_MAX + 1))
    assert len(list(steps)) > len(texts) // (32 << 10)


MARKS = re.compile(rb'"(?:[^"\\]|\\.)*"?|([,:\[{])', re.DOTALL)


@given(st.lists(st.sampled_from([b'"', b"\\", b",", b"[", b"a"])), st.integers(1, 9))
def test_marks_are_counted_whatever_pieces_are_looked_at(parts, size):
    text = b"".join(parts)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(bodies, "_COUNTED_A_TURN", size + 1)
        counted = sum(bodies._marks(text))
    assert counted == sum(found[1] is not None for found in MARKS.finditer(text))


def test_values_that_other_encodings_hide_are_not_parsed():
    hidden = '["\u2201", ' + "[]," * MANY + '""]'  # a byte of it is a quote in UTF-8
    with pytest.raises(HTTPException) as refused:
        check_values(hidden.encode("utf-16-le"))
    assert refused.value.status_code == 415
    check_values('{"\u2201": [1, 2]}'.encode("utf-16"))


def gathered(limit, receive, go_on=None):
    """What an application behind ``limit`` reads; it waits for ``go_on`` then."""
    read = []

    async def app(_scope, receive, _send):
        while True:
            message = await receive()
            read.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        if go_on is not None:
            await go_on.wait()

    limit._app = app
    scope = {"type": "http", "headers": []}
    return limit(scope, receive, None), read


def test_a_body_that_does_not_come_in_time_is_a_408():
    async def never():
        await asyncio.Event().wait()

    async def story():
        limit = BodyLimit(None, slow_s=0.01)
        asked, _ = gathered(limit, never)
        with pytest.raises(HTTPException) as caught:
            await asked
        assert (caught.value.status_code, limit.held) == (408, 0)

    asyncio.run(story())


def test_all_bodies_together_have_a_limit():
    async def piece():
        return {"type": "http.request", "body": b" " * MIB, "more_body": False}

    async def short():
        return {"type": "http.request", "body": b" ", "more_body": False}

    async def story():
        limit, go_on = BodyLimit(None, all_bytes_max=MIB), asyncio.Event()
        asked, read = gathered(limit, piece, go_on)
        first = asyncio.create_task(asked)
        while not read:
            await asyncio.sleep(0)
        with pytest.raises(HTTPException) as caught:
            await gathered(limit, piece)[0]
        assert (caught.value.status_code, limit.held) == (429, MIB)
        await gathered(limit, short)[0]
        go_on.set()
        await first
        assert limit.held == 0
        await gathered(limit, piece)[0]

    asyncio.run(story())


def test_a_stream_may_be_longer(plane):
    url = f"{plane.create('streamed-body')}/records"
    answer = plane.ask("POST", url, content=b"{}" + b" " * TOO_LONG + b"{}")
    assert answer.status_code == 200
    assert len(answer.text.splitlines()) == 2


@pytest.mark.parametrize(
    "body",
    [
        b'{"\\ud800": 1}',
        b'{"topic_name": "\\ud800"}',
        b'{"topic_name": "t", "configs": [{"name": "\\ud800", "value": "1"}]}',
        b'{"topic_name": "t", "configs": [{"name": "a", "value": "\\ud800"}]}',
    ],
)
def test_half_a_surrogate_pair_is_the_clients_fault(plane, body):
    url = f"{plane.cluster}/topics"
    answer = plane.ask("POST", url, content=body, headers=JSON)
    assert answer.status_code == 400, answer.text
    assert answer.json()["message"]
