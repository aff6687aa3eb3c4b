"""Tokens: kept as hashes, seen by every process at once, and never half."""

import stat
import threading
from pathlib import Path

import pytest

from admin_api.access import tokens as module
from admin_api.access.tokens import FILE, Role, Tokens, TokensUnreadable, find


def test_none_was_ever_made(tmp_path: Path) -> None:
    assert Tokens(tmp_path).read() is None


def test_a_token_is_kept_as_a_hash_that_its_owner_alone_may_read(tmp_path):
    token, text = Tokens(tmp_path / "new").create(Role.OPERATOR, "for tests", 5)
    file = tmp_path / "new" / FILE
    secret = text.removeprefix(f"lakelog_{token.id}_")
    assert len(secret) == 43
    assert secret not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept = Tokens(tmp_path / "new").read()
    assert kept == {token.id: token}
    assert (token.role, token.description, token.created_ms) == (
        Role.OPERATOR,
        "for tests",
        5,
    )


def test_only_what_expires_says_so_in_the_file(tmp_path):
    """An older version refuses a file with what it does not know."""
    tokens = Tokens(tmp_path)
    tokens.create(Role.VIEWER, "", 5)
    assert "expires" not in (tmp_path / FILE).read_text()
    token, _ = tokens.create(Role.VIEWER, "", 5, lives_ms=10)
    kept = Tokens(tmp_path).read()[token.id]
    assert (kept.expires_ms, kept.is_expired(14), kept.is_expired(15)) == (
        15,
        False,
        True,
    )


def test_only_the_whole_token_is_the_token(tmp_path):
    tokens = Tokens(tmp_path)
    token, text = tokens.create(Role.VIEWER, "", 0)
    other, _ = tokens.create(Role.ADMIN, "", 0)
    known = tokens.read()
    assert find(known, text) == token
    wrong = ["", "lakelog", text[:-1], text + "x", text.upper(), f"x{text}"]
    wrong += [text.replace(token.id, other.id), token.sha256, "\ud83d", "_" * 500]
    assert not [one for one in wrong if find(known, one) is not None]


def test_every_comparison_is_of_whole_hashes_in_constant_time(tmp_path, monkeypatch):
    compared = []

    def noted(one, other):
        compared.append((len(one), len(other)))
        return one == other

    tokens = Tokens(tmp_path)
    _, text = tokens.create(Role.VIEWER, "", 0)
    monkeypatch.setattr(module.hmac, "compare_digest", noted)
    for asked in (text, text + "x", "lakelog_nobody_x", ""):
        find(tokens.read(), asked)
    assert compared == [(64, 64)] * 4


def test_another_process_sees_a_change_at_its_next_look(tmp_path):
    ours, theirs = Tokens(tmp_path), Tokens(tmp_path)
    assert ours.read() is None
    token, _ = theirs.create(Role.VIEWER, "", 0)
    assert ours.read() == {token.id: token}
    assert theirs.revoke(token.id)
    assert ours.read() == {}
    assert not theirs.revoke(token.id)


def test_revoking_nothing_makes_no_file(tmp_path):
    assert not Tokens(tmp_path).revoke("nobody")
    assert Tokens(tmp_path).read() is None


def test_a_file_that_is_no_list_of_tokens_is_an_error_each_time(tmp_path):
    tokens = Tokens(tmp_path)
    tokens.create(Role.VIEWER, "", 0)
    assert tokens.read()
    (tmp_path / FILE).write_text('{"tokens": [{"id": "a"}]}')
    for _ in range(2):
        with pytest.raises(TokensUnreadable, match=FILE):
            tokens.read()
    with pytest.raises(TokensUnreadable):
        tokens.create(Role.VIEWER, "", 0)


def test_none_is_lost_when_many_are_made_at_once(tmp_path):
    barrier = threading.Barrier(8)

    def make():
        barrier.wait()
        Tokens(tmp_path).create(Role.VIEWER, "", 0)

    makers = [threading.Thread(target=make) for _ in range(8)]
    for one in makers:
        one.start()
    for one in makers:
        one.join()
    assert len(Tokens(tmp_path).read()) == 8


def test_there_is_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TOKENS_MAX", 1)
    Tokens(tmp_path).create(Role.VIEWER, "", 0)
    with pytest.raises(ValueError, match="revoke one"):
        Tokens(tmp_path).create(Role.VIEWER, "", 0)
    assert len(Tokens(tmp_path).read()) == 1


def test_each_role_may_what_those_below_may():
    may = {(a, b) for a in Role for b in Role if a.includes(b)}
    assert may == {(a, b) for a in Role for b in Role} - {
        (Role.VIEWER, Role.OPERATOR),
        (Role.VIEWER, Role.ADMIN),
        (Role.OPERATOR, Role.ADMIN),
    }


class Overtaken(Tokens):
    """Reads anew; another thread ends an older reading each time it keeps something."""

    older: Path | None = None

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if self.older is not None and name != "_path":
            now, older = self._path, self.older
            object.__setattr__(self, "older", None)
            object.__setattr__(self, "_path", older)
            self.read()
            object.__setattr__(self, "_path", now)


def test_a_reading_that_ends_late_lets_nobody_in_again(tmp_path):
    tokens = Overtaken(tmp_path)
    token, _ = tokens.create(Role.ADMIN, "", 0)
    older = tmp_path / "older"
    older.hardlink_to(tmp_path / FILE)
    assert Tokens(tmp_path).revoke(token.id)
    object.__setattr__(tokens, "older", older)
    tokens.read()
    assert tokens.read() == {}
