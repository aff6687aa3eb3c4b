"""``lakelog config``: what can be set, and what is."""

import typer

from broker import settings as known
from broker.cli import output
from broker.cli.options import Config, DataDir, Extra, Json, settings_of

app = typer.Typer(help="Settings: what there is, what is set.", no_args_is_help=True)


@app.command()
def schema(json: Json = False) -> None:
    """Every setting with its type, default and meaning."""
    output.rows(known.schema(), json)


@app.command()
def show(
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """The settings as flags, environment, file and defaults make them."""
    output.one(known.describe(settings_of(data_dir, config, extra)), json)
