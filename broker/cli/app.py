"""All commands in one place: ``lakelog --help`` is this file."""

import typer

from broker.cli import (
    admin,
    config,
    consume,
    erase,
    groups,
    produce,
    rebuild,
    run,
    sql,
    tables,
    topics,
    transactions,
)

app = typer.Typer(
    help="A Kafka broker whose topics are Delta tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(run.up)
app.command()(run.broker)
app.command()(run.compactor)
app.add_typer(admin.app, name="admin")
app.add_typer(topics.app, name="topic")
app.add_typer(groups.app, name="group")
app.add_typer(transactions.app, name="transactions")
app.command()(produce.produce)
app.command()(consume.consume)
app.command()(tables.compact)
app.command()(tables.table)
app.command()(tables.undelete)
app.command()(erase.erase)
app.command()(tables.check)
app.command()(sql.sql)
app.command("spark-conf")(sql.spark_conf)
app.command()(sql.metastore)
app.command()(rebuild.rebuild)
app.add_typer(config.app, name="config")
