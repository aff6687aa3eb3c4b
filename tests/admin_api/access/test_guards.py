"""Every route of the application has its guard; those that have none are listed."""

import asyncio
import threading

import httpx
import pytest
from fastapi.routing import APIRoute

from admin_api.access.tokens import FILE, Role, Tokens
from tests.support.patience import IDLE_S

OPEN = {"/livez", "/readyz", "/status/ready", "/docs", "/docs/{name}"}
"""What anybody may ask: whether it lives, and the manual."""
DOCUMENT = "/openapi.json"
FOR_ADMINS = {
    ("get", "/v1/debug/bundle"),
    ("put", "/v1/loggers/{logger_name}"),
    ("post", "/v3/clusters/{cluster_id}/acls"),
    ("post", "/v3/clusters/{cluster_id}/acls:batch"),
    ("delete", "/v3/clusters/{cluster_id}/acls"),
    *(
        one
        for path in ("brokers/{broker_id}/configs", "broker-configs")
        for one in (
            ("post", f"/v3/clusters/{{cluster_id}}/{path}:alter"),
            ("put", f"/v3/clusters/{{cluster_id}}/{path}/{{name}}"),
            ("delete", f"/v3/clusters/{{cluster_id}}/{path}/{{name}}"),
        )
    ),
}
METHODS = ("get", "put", "post", "patch", "delete")


@pytest.fixture(scope="module")
def document(plane):
    return plane.get(DOCUMENT).json()


def operations(document):
    return [
        (method, path, item[method])
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]


def role_of(method, path):
    """The least role that may ask."""
    if (method, path) in FOR_ADMINS:
        return Role.ADMIN
    return Role.VIEWER if method == "get" else Role.OPERATOR


def url(path):
    """With a number for each parameter, which is a name as well."""
    while "{" in path:
        path = path[: path.index("{")] + "1" + path[path.index("}") + 1 :]
    return path


def brief(path):
    """The query of what would wait otherwise."""
    ends = {"tail": "duration_s", ":compact": "timeout"}
    return {name: 0 for end, name in ends.items() if path.endswith(end)}


def statuses(app, wanted, headers):
    """The status of each (method, path); what is refused has no body to be wrong."""

    async def story():
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://plane", headers=headers
        ) as client:
            return [
                (
                    await client.request(method, url(path), params=brief(path))
                ).status_code
                for method, path in wanted
            ]

    return asyncio.run(story())


def test_no_operation_of_the_document_is_unguarded(plane, document, guarded):
    assert guarded
    every = [(method, path) for method, path, _ in operations(document)]
    found = zip(every, statuses(plane.app, every, {}), strict=True)
    unguarded = {path for (_, path), status in found if status != 401}
    assert unguarded == {"/livez", "/readyz"}


def test_the_document_says_what_needs_a_token(document):
    for _, path, operation in operations(document):
        assert bool(operation.get("security")) is (path not in OPEN), path


@pytest.mark.parametrize("role", Role)
def test_a_role_may_what_it_may_and_nothing_else(plane, document, guarded, role):
    every = [
        (method, path)
        for method, path, _ in operations(document)
        if path not in OPEN and path != "/v1/debug/bundle"
    ]
    found = statuses(plane.app, every, guarded[role])
    refused = {one for one, status in zip(every, found, strict=True) if status == 403}
    assert refused == {one for one in every if not role.includes(role_of(*one))}
    assert 401 not in found


def test_what_the_document_leaves_out_is_open_on_purpose_or_guarded(plane, guarded):
    assert guarded
    left_out = [
        ("get", route.path)
        for route in plane.app.routes
        if isinstance(route, APIRoute) and not route.include_in_schema
    ]
    found = zip(left_out, statuses(plane.app, left_out, {}), strict=True)
    assert {path for (_, path), status in found if status != 401} <= OPEN


def test_a_refusal_is_told_in_confluents_words(plane, guarded):
    answer = plane.get("/v3/clusters")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error_code"] == 40101
    answer = plane.ask(
        "POST", f"{url('/v3/clusters/{c}/topics')}", headers=guarded[Role.VIEWER]
    )
    assert answer.json() == {
        "error_code": 40301,
        "message": "This needs the role operator; the token has viewer.",
    }
    assert guarded[Role.ADMIN]["authorization"] not in answer.text


def test_a_stranger_is_refused_before_the_body_is_looked_at(plane, guarded):
    assert guarded
    answer = plane.ask(
        "POST",
        "/v3/clusters/x/topics",
        content=b"{",
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 401
    assert answer.json()["error_code"] == 40101


def test_a_token_works_until_it_is_revoked(plane, guarded):
    assert plane.ask("GET", "/v1/health", headers=guarded[Role.VIEWER]).is_success
    kept = (plane.data_dir / FILE).read_text()
    (plane.data_dir / FILE).write_text('{"tokens": []}')
    answer = plane.ask("GET", "/v1/health", headers=guarded[Role.VIEWER])
    assert answer.status_code == 401
    (plane.data_dir / FILE).write_text(kept)


def test_whether_it_lives_is_told_while_the_disk_of_the_tokens_hangs(
    plane, monkeypatch
):
    asked, answers = threading.Event(), threading.Event()
    were_held = []

    def hang(_self):
        asked.set()
        were_held.append(answers.wait(IDLE_S))

    monkeypatch.setattr(Tokens, "read", hang)
    held = threading.Thread(target=plane.get, args=("/v1/config",))
    held.start()
    asked.wait()
    try:
        assert plane.get("/livez").status_code == 200
    finally:
        answers.set()
        held.join()
    assert were_held == [True]


def test_other_sites_pages_are_given_nothing(plane):
    """No CORS: a browser keeps the answer from whoever asked out of another page."""
    asked = {"origin": "http://evil.example", "access-control-request-method": "GET"}
    for method in ("OPTIONS", "GET"):
        answer = plane.ask(method, "/v1/health", headers=asked)
        assert not [name for name in answer.headers if name.startswith("access-c")]
        assert "set-cookie" not in answer.headers
