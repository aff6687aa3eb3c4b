"""``lakelog admin token``: made once, shown once, listed without secrets, revoked."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from admin_api.access.tokens import FILE, Tokens, find
from tests.support.process import lakelog, told


@pytest.fixture
def ask(tmp_path: Path):
    def asked(*words: str):
        where = ["--data-dir", str(tmp_path / "data"), "--json"]
        return json.loads(lakelog("admin", "token", *words, *where))

    return asked


def test_a_token_is_made_listed_and_revoked(ask, tmp_path):
    assert ask("list") == []
    made = ask("create", "--role", "operator", "--description", "for Ann")
    kept = Tokens(tmp_path / "data").read()
    assert find(kept, made["token"]).role == "operator"
    [listed] = ask("list")
    assert listed.keys() == {"id", "role", "created", "expires", "description"}
    assert listed["expires"] == ""
    assert (listed["id"], listed["role"]) == (made["id"], "operator")
    assert listed["description"] == "for Ann"
    assert listed["created"].endswith("+00:00")
    assert ask("revoke", made["id"]) == {"revoked": made["id"]}
    assert ask("list") == []


def test_a_token_may_be_good_for_a_time(ask):
    ask("create", "--expires-in", "90d")
    [listed] = ask("list")
    created, expires = (
        datetime.fromisoformat(listed[name]) for name in ("created", "expires")
    )
    assert expires - created == timedelta(days=90)


def test_what_cannot_be_is_told_in_a_sentence(tmp_path):
    where = ["--data-dir", str(tmp_path)]
    for words, sentence, code in (
        (["create", "--role", "root"], "not 'root'", 2),
        (["create", "--description", "a\x1b[31m"], "printable", 2),
        (["create", "--expires-in", "0d"], "not '0d'", 2),
        (["create", "--expires-in", "9999999d"], "such as 30m", 2),
        (["revoke", "nobody"], "there is no token 'nobody'", 1),
    ):
        done = told("admin", "token", *words, *where)
        assert (done.code, done.output) == (code, "")
        assert sentence in done.errors
    done = told("admin", *where, "token", "create")
    assert (done.code, done.output) == (2, "")
    assert "--data-dir stands behind the words" in done.errors
    (tmp_path / FILE).write_text("{")
    done = told("admin", "token", "list", *where)
    assert done.code == 1
    assert FILE in done.errors
