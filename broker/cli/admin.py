"""``lakelog admin``: the REST plane alone; ``lakelog admin token``: who may ask it."""

import contextlib
import ipaddress
import socket
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from broker.cli import tokens
from broker.cli.announce import announce
from broker.cli.failures import BadUsage, UserError
from broker.cli.options import (
    Admin,
    Config,
    DataDir,
    Extra,
    Insecure,
    Listener,
    settings_of,
)
from broker.cli.supervisor import FROM_INPUT, die_with_parent
from broker.settings import Settings

app = typer.Typer(help="The admin plane: REST over HTTP.", invoke_without_command=True)
app.add_typer(tokens.app, name="token")


@app.callback()
def admin(
    context: typer.Context,
    data_dir: DataDir = None,
    admin_address: Admin = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            help="HOST:PORT of the broker; else where that of the data directory is, "
            "or will listen.",
        ),
    ] = None,
    config: Config = None,
    extra: Extra = None,
    insecure: Insecure = False,
    listener: Listener = None,
    advertised: Annotated[str | None, typer.Option("--advertised", hidden=True)] = None,
) -> None:
    """The admin plane alone: REST over HTTP. Or, with a word more, its tokens."""
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    die_with_parent()
    del advertised  # `up` hands the same options to every part
    settings = settings_of(
        data_dir, config, extra, admin=admin_address, listener=listener
    )
    from admin_api import server
    from broker.runtime.process.logging import configure_logging, levels, recent

    configure_logging(settings)
    bound = admin_socket(settings, insecure=insecure)
    if bootstrap == FROM_INPUT:
        bootstrap = sys.stdin.readline().strip()
        if not bootstrap:  # `up` ended before the broker was there
            raise typer.Exit(1)
    bootstrap = bootstrap or bootstrap_of(settings)
    try:
        bound.listen()  # to the plane's loop it is no error if another came first
    except OSError as error:
        raise _not_heard(settings, error) from None
    with _refusals_reported():  # the tokens may have gone while the broker started
        server.run(
            bound, bootstrap, settings, announce,
            insecure=insecure, recent=recent, levels=levels,
        )  # fmt: skip


def bootstrap_of(settings: Settings) -> str:
    """HOST:PORT of the data directory's broker: where it says that it listens, or, if
    none runs, where it will. One that listens everywhere is asked by loopback."""
    from broker.clock import SystemClock
    from broker.status import file
    from broker.status.schema import BrokerStatus

    now_s = SystemClock().now_ms() / 1000
    status = file.read(settings.data_dir, BrokerStatus, now_s)
    is_ending = status is not None and status.state == "stopping"
    address = (not is_ending and status and status.kafka) or settings.listener
    host, _, port = address.rpartition(":")
    with contextlib.suppress(ValueError):  # a name
        found = ipaddress.ip_address(host.strip("[]"))
        if found.is_unspecified:
            return f"127.0.0.1:{port}" if found.version == 4 else f"[::1]:{port}"
    return address


def _refuse_options(context: typer.Context) -> None:
    """Raise BadUsage if options stand before ``token``: it would not see them, and make
    a token for another data directory than the one that was meant."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is not None and source.name == "COMMANDLINE":
            raise BadUsage(f"{option.opts[0]} stands behind the words: token create")


def admin_socket(settings: Settings, *, insecure: bool) -> socket.socket:
    """A socket where the plane may listen. Raises UserError if it cannot or may not."""
    from admin_api.access import exposure
    from admin_api.access.tokens import Tokens

    host, _, port = settings.admin.rpartition(":")
    with _refusals_reported(), contextlib.ExitStack() as opened:
        exposure.check_certificate(settings.admin_tls)
        try:
            bound = opened.enter_context(exposure.listen(host.strip("[]"), int(port)))
        except OSError as error:
            raise _not_heard(settings, error) from None
        exposure.check(bound, Tokens(settings.data_dir), insecure=insecure)
        opened.pop_all()
    return bound


@contextlib.contextmanager
def _refusals_reported() -> Iterator[None]:
    """Turn why the plane may not listen there into a UserError."""
    from admin_api.access.exposure import ExposureRefused
    from admin_api.access.tokens import TokensUnreadable

    try:
        yield
    except (ExposureRefused, TokensUnreadable) as error:
        raise UserError(str(error)) from None


def _not_heard(settings: Settings, error: OSError) -> UserError:
    return UserError(
        f"cannot listen on {settings.admin}: {error.strerror}; choose another --admin"
    )
