"""Bearer tokens: made once, kept as hashes, compared in constant time.

A token is ``lakelog_ID_SECRET``. The file ``DATA/admin-tokens.json`` has of each its
id, role, description and the SHA-256 of the whole of it: the secret has 256 bits of
chance, so a slow hash would protect nothing more. The file is replaced as a whole,
readable by its owner alone, and read again whenever it changed, so that a revoked token
is refused from the next request on.

Once the file is there tokens are asked for, even when the last one was revoked; a file
that cannot be read lets nobody in.
"""

import contextlib
import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

FILE: Final = "admin-tokens.json"
TOKENS_MAX: Final = 1_000
TOKEN_CHARACTERS_MAX: Final = 200
_PREFIX: Final = "lakelog"
_NOBODY: Final = "0" * 64
"""Compared where there is no such id, so that it takes as long."""


class Role(StrEnum):
    """Each may all that those before it may: look; change topics, groups and records;
    change the processes themselves and take their insides out."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """Whether who has this role may what ``other`` may."""
        order = list(Role)
        return order.index(self) >= order.index(other)


class TokensUnreadable(Exception):
    """The file of tokens cannot be read; the message is one sentence for people."""


class Token(BaseModel):
    """What is kept of a token: enough to know it again, not to make it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    role: Role
    description: str = ""
    created_ms: int
    expires_ms: int | None = None
    """From when on it is refused; None: it is good until it is revoked."""
    sha256: str

    def is_expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return self.expires_ms is not None and now_ms >= self.expires_ms


class _Kept(BaseModel):
    tokens: list[Token]


class Tokens:
    """The tokens of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE
        self._read: tuple[tuple[int, int, int], dict[str, Token]] | None = None
        """The file as it was seen, and its tokens: one value, for threads read at once
        and none may keep the older tokens as the newer file's."""

    def read(self) -> dict[str, Token] | None:
        """The tokens by id; None if none was ever made. Blocks.

        Raises:
            TokensUnreadable: the file is there, and no list of tokens.
        """
        try:
            found = os.stat(self._path)
            seen = found.st_mtime_ns, found.st_ino, found.st_size
            before = self._read
            if before is not None and before[0] == seen:
                return before[1]
            kept = _Kept.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            self._read = None
            raise TokensUnreadable(f"{self._path} cannot be read as tokens") from error
        tokens = {token.id: token for token in kept.tokens}
        self._read = seen, tokens
        return tokens

    def create(
        self,
        role: Role,
        description: str,
        now_ms: int,
        lives_ms: int | None = None,
    ) -> tuple[Token, str]:
        """A new token, kept; and the text that its holder sends, kept nowhere. It is
        good for ``lives_ms`` if that is said.

        Raises:
            TokensUnreadable, OSError: it could not be kept.
            ValueError: there are too many.
        """
        with self._changing() as tokens:
            if len(tokens) >= TOKENS_MAX:
                raise ValueError(f"there are {TOKENS_MAX} tokens: revoke one first")
            name = secrets.token_hex(6)
            text = f"{_PREFIX}_{name}_{secrets.token_urlsafe(32)}"
            token = Token(
                id=name,
                role=role,
                description=description,
                created_ms=now_ms,
                expires_ms=None if lives_ms is None else now_ms + lives_ms,
                sha256=_hash(text),
            )
            tokens[name] = token
        return token, text

    def revoke(self, name: str) -> bool:
        """Whether there was a token of this id; it is refused from now on.

        Raises:
            TokensUnreadable, OSError: it could not be revoked.
        """
        with self._changing() as tokens:
            return tokens.pop(name, None) is not None

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """The tokens to be changed by one process at a time; written afterwards."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.read()
            tokens = dict(before or {})
            yield tokens
            if tokens != before and (tokens or before is not None):
                self._write(_Kept(tokens=list(tokens.values())))
        finally:
            os.close(lock)

    def _write(self, kept: _Kept) -> None:
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)
        file = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(file, "wb") as opened:
            opened.write(kept.model_dump_json(indent=1, exclude_none=True).encode())
            opened.flush()
            os.fsync(opened.fileno())
        new.rename(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def find(tokens: dict[str, Token], text: str) -> Token | None:
    """The token that ``text`` is; takes as long for a wrong secret as for the right."""
    _, _, rest = text.partition("_")
    token = tokens.get(rest.partition("_")[0])
    expected = token.sha256 if token is not None else _NOBODY
    return token if hmac.compare_digest(_hash(text), expected) else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
