"""``lakelog admin token``: make, list and revoke what opens the admin plane."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from broker.cli import output
from broker.cli.failures import BadUsage, UserError
from broker.cli.options import Config, DataDir, Extra, Json, settings_of
from broker.clock import SystemClock

app = typer.Typer(help="Who may ask the admin plane.", no_args_is_help=True)

DESCRIPTION_MAX = 200
_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"([1-9][0-9]{0,4})([mhd])")


@app.command()
def create(
    role: Annotated[
        str, typer.Option("--role", help="viewer, operator or admin.")
    ] = "viewer",
    description: Annotated[
        str, typer.Option("--description", help="For whom it is.")
    ] = "",
    expires_in: Annotated[
        str | None,
        typer.Option("--expires-in", help="30m, 12h, 90d; good until revoked if not."),
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """Make a token and print it, once: only its hash is kept."""
    from admin_api.access.tokens import Role

    if role not in list(Role):
        raise BadUsage(f"--role takes viewer, operator or admin, not {role!r}")
    if len(description) > DESCRIPTION_MAX or not (description + "x").isprintable():
        raise BadUsage(f"--description takes {DESCRIPTION_MAX} printable characters")
    with _tokens(data_dir, config, extra) as tokens:
        token, text = tokens.create(
            Role(role), description, SystemClock().now_ms(), _span_ms(expires_in)
        )
    output.one({"id": token.id, "role": str(token.role), "token": text}, json)


@app.command("list")
def list_(
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """All tokens: ids, roles, from when, till when, for whom; never the tokens."""
    with _tokens(data_dir, config, extra) as tokens:
        found = tokens.read() or {}
    output.rows(
        [
            {
                "id": token.id,
                "role": str(token.role),
                "created": _day(token.created_ms),
                "expires": "" if token.expires_ms is None else _day(token.expires_ms),
                "description": token.description,
            }
            for token in found.values()
        ],
        json,
    )


@app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(help="The id of a token.")],
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """Refuse a token from now on. Without any token left nobody is let in."""
    with _tokens(data_dir, config, extra) as tokens:
        if not tokens.revoke(token_id):
            raise UserError(f"there is no token {token_id!r}")
    output.one({"revoked": token_id}, json)


def _span_ms(text: str | None) -> int | None:
    """Raises BadUsage for what is no time to live."""
    if text is None:
        return None
    match = _SPAN.fullmatch(text)
    if match is None:
        raise BadUsage(
            f"--expires-in takes a time such as 30m, 12h or 90d, not {text!r}"
        )
    return int(match[1]) * _UNITS_MS[match[2]]


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


@contextmanager
def _tokens(data_dir: Any, config: Any, extra: Any) -> Iterator[Any]:
    """The tokens of the data directory; what goes wrong with them as UserError."""
    from admin_api.access.tokens import Tokens, TokensUnreadable

    settings = settings_of(data_dir, config, extra)
    try:
        yield Tokens(settings.data_dir)
    except (TokensUnreadable, ValueError) as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{settings.data_dir}: {error.strerror}") from None
