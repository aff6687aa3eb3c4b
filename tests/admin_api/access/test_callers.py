"""Who asks: by one header, before the body is read."""

import asyncio

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse

from admin_api.access.callers import (
    ANYONE,
    CALLER,
    Asking,
    Caller,
    Callers,
    Refused,
    bearer,
)
from admin_api.access.tokens import FILE, Role, Tokens
from admin_api.app import create_app
from broker.settings import Settings
from tests.support.clock import ManualClock


def header(*values):
    return [(b"authorization", value) for value in values]


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        (header(b"Bearer abc"), "abc"),
        (header(b"bearer  abc "), "abc"),
        ([], None),
        (header(b"Bearer a", b"Bearer a"), None),
        (header(b"Basic abc"), None),
        (header(b"Bearer"), None),
        (header(b"Bearer "), None),
        (header(b"Bearer " + b"x" * 201), None),
        (header(b"\xff\x00"), None),
    ],
)
def test_there_is_one_token_or_none(headers, token):
    assert bearer(headers) == token


def asked(tmp_path, *, is_closed, headers=(), body=None, clock=None):
    """(caller as the application sees it, what reading the body came to)."""
    seen = {}

    async def app(scope, receive, send):
        seen["caller"] = await scope[CALLER].caller()
        if body is not None:
            try:
                seen["body"] = await Request(scope, receive).body()
            except Refused as refusal:
                seen["body"] = refusal
        await JSONResponse({})(scope, receive, send)

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(_message):
        return None

    scope = {"type": "http", "method": "POST", "path": "/", "headers": list(headers)}
    middleware = Callers(app, Tokens(tmp_path), None, clock, is_closed=is_closed)
    asyncio.run(middleware(scope, receive, send))
    return seen["caller"], seen.get("body")


def test_anybody_may_all_while_no_token_was_made(tmp_path):
    caller, body = asked(tmp_path, is_closed=False, body=b"x")
    assert (caller, body) == (ANYONE, b"x")
    caller.require(Role.ADMIN)


def test_a_closed_plane_without_tokens_lets_nobody_in(tmp_path):
    caller, body = asked(tmp_path, is_closed=True, body=b"x")
    assert body is caller.refusal
    assert caller.refusal.error_code == 40101


def test_an_expired_token_lets_nobody_in(tmp_path):
    clock = ManualClock()
    _, text = Tokens(tmp_path).create(Role.ADMIN, "", clock.now_ms(), lives_ms=1_000)
    sent = header(f"Bearer {text}".encode())
    clock.advance(999)
    caller, _ = asked(tmp_path, is_closed=False, headers=sent, clock=clock)
    caller.require(Role.ADMIN)
    clock.advance(1)
    caller, body = asked(
        tmp_path, is_closed=False, headers=sent, body=b"x", clock=clock
    )
    assert caller.refusal.error_code == 40101
    assert "expired" in caller.refusal.detail
    assert body is caller.refusal


def test_a_token_is_its_holder(tmp_path):
    token, text = Tokens(tmp_path).create(Role.OPERATOR, "", 0)
    sent = header(f"Bearer {text}".encode())
    caller, body = asked(tmp_path, is_closed=False, headers=sent, body=b"x")
    assert (caller, body) == (Caller(token.id, Role.OPERATOR), b"x")
    caller.require(Role.VIEWER)
    with pytest.raises(Refused, match="needs the role admin") as refused:
        caller.require(Role.ADMIN)
    assert (refused.value.status_code, refused.value.error_code) == (403, 40301)


def test_the_body_of_a_stranger_is_not_read(tmp_path):
    Tokens(tmp_path).create(Role.VIEWER, "", 0)
    sent = header(b"Bearer lakelog_nobody_x")
    caller, body = asked(tmp_path, is_closed=False, headers=sent, body=b"x" * 1000)
    assert body is caller.refusal
    with pytest.raises(Refused, match="not known"):
        caller.require(Role.VIEWER)


def test_the_last_token_revoked_leaves_nobody_in(tmp_path):
    tokens = Tokens(tmp_path)
    token, text = tokens.create(Role.ADMIN, "", 0)
    tokens.revoke(token.id)
    for sent in ((), header(f"Bearer {text}".encode())):
        caller, _ = asked(tmp_path, is_closed=False, headers=sent)
        assert caller.refusal.status_code == 401


def test_tokens_that_cannot_be_read_let_nobody_in(tmp_path):
    (tmp_path / FILE).write_text("[")
    caller, _ = asked(tmp_path, is_closed=False)
    assert (caller.role, caller.refusal.error_code) == (None, 50301)
    assert FILE in caller.refusal.detail


PAGE = {"host": "evil.example:8082", "origin": "http://evil.example:8082"}


def test_an_open_plane_turns_a_page_away_whose_name_became_this_machines(plane):
    for method, path in (
        ("GET", "/v1/topics/t/records"),
        ("GET", "/metrics"),
        ("DELETE", "/v3/clusters/x/topics/t"),
        ("POST", "/v3/clusters/x/topics/t/records"),
    ):
        answer = plane.ask(method, path, headers=PAGE, content=b"{}")
        assert answer.status_code == 421, answer.text
        assert answer.json()["error_code"] == 42101
        assert "localhost" in answer.json()["message"]
    assert plane.ask("GET", "/livez", headers=PAGE).status_code == 200
    assert plane.ask("GET", "/v3/clusters").status_code == 200


def test_a_token_is_served_by_whatever_name(plane, guarded):
    for role in Role:
        answer = plane.ask("GET", "/v3/clusters", headers=PAGE | guarded[role])
        assert answer.status_code == 200
    assert plane.ask("GET", "/v3/clusters", headers=PAGE).status_code == 401


@pytest.mark.parametrize(("names", "status"), [("", 200), ("plane", 421)])
def test_an_exposed_plane_is_asked_by_any_name_unless_some_are_named(
    tmp_path, names, status
):
    settings = Settings(data_dir=tmp_path, admin_hosts=names)
    app = create_app("127.0.0.1:1", settings, is_exposed=True)

    async def asked(host):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(
            transport=transport, base_url=f"http://{host}"
        ) as client:
            return (await client.get("/v1/config")).status_code

    assert asyncio.run(asked("evil.example")) == status
    assert asyncio.run(asked("plane")) == 200


def test_what_is_done_while_it_is_allowed_leaves_nothing_behind(tmp_path):
    async def story():
        asking = Asking(
            {"headers": []}, Tokens(tmp_path), None, ManualClock(), is_closed=False
        )
        assert (
            await asking.while_allowed(Role.VIEWER, asyncio.sleep(0, "done")) == "done"
        )
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())
