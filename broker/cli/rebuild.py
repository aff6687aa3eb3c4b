"""``lakelog rebuild``: a lost catalog is made again from tables and segments."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from broker.cli import output
from broker.cli.failures import BadUsage, UserError
from broker.cli.options import Config, DataDir, Extra, Json, pairs, settings_of
from broker.ids import TopicNumber

if TYPE_CHECKING:
    from broker.runtime.rebuilding.plan import Answers, PlannedTopic
    from broker.runtime.rebuilding.rebuild import Rebuilt

LOST: Final = (
    "groups and the offsets that they had committed are lost: each consumer begins "
    "where its auto.offset.reset says, unless you say where before it starts: "
    "lakelog group reset-offsets GROUP --topic TOPIC --to-datetime TIME --execute",
    "transactional ids are lost: a transactional producer that still runs has to be "
    "started anew; idempotent ones go on",
    "what clients had configured of brokers, groups and client metrics is lost, and so "
    "are finalized features; topics that never had a record are not made again",
)


def rebuild(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be made; make nothing.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also where a catalog can be read; that is kept aside."
        ),
    ] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NUMBER=NAME",
            help="Whose records the log has under a number that no table says.",
        ),
    ] = None,
    leave: Annotated[
        list[int] | None,
        typer.Option(
            metavar="NUMBER", help="Give up what the log has under such a number."
        ),
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    extra: Extra = None,
    json: Json = False,
) -> None:
    """Make a lost catalog again: topics, ids, configurations, log starts and ends.

    Nothing else may run on the data directory. What was in the catalog's place is
    kept. Exit code 1 if nothing was made, or a table could not be read.
    """
    from broker.clock import SystemClock
    from broker.runtime.rebuilding.rebuild import NotRebuilt
    from broker.runtime.rebuilding.rebuild import rebuild as make_again
    from broker.storage.files import PosixFiles

    directory = settings_of(data_dir, config, extra).data_dir
    try:
        made = make_again(
            directory,
            PosixFiles(),
            SystemClock(),
            answers=_answers(topic, leave),
            dry_run=dry_run,
            force=force,
        )
    except (NotRebuilt, OSError) as error:
        raise UserError(str(error)) from None
    _print(made, dry_run=dry_run, as_json=json)
    raise typer.Exit(1 if made.plan.problems or made.damage else 0)


def _answers(topic: list[str] | None, leave: list[int] | None) -> "Answers":
    from broker.runtime.rebuilding.plan import Answers

    names = {}
    for number, name in pairs(topic, "--topic"):
        if not (number.isascii() and number.isdigit()) or len(number) > 9:
            raise BadUsage(f"--topic takes NUMBER=NAME, not {number}={name}")
        names[TopicNumber(int(number))] = name
    if len(set(names.values())) < len(names):
        raise BadUsage("--topic gives two numbers the same name")
    return Answers(names, frozenset(map(TopicNumber, leave or ())))


def _print(made: "Rebuilt", *, dry_run: bool, as_json: bool) -> None:
    plan = made.plan
    topics = [_row(one, made) for one in plan.topics]
    problems = [*plan.problems, *(f"the log: {what}" for what in made.damage)]
    remarks = [*plan.remarks, *_ends_of_transactions(made)]
    aside = [str(path) for path in made.aside]
    if as_json:
        said = {
            "made": not dry_run, "topics": topics, "problems": problems,
            "remarks": remarks, "lost": LOST, "aside": aside,
            "cluster_id": made.cluster_id,
            "first_producer_id": made.first_producer_id,
        }  # fmt: skip
        output.one(said, as_json=True)
        return
    output.rows(topics, as_json=False)
    for label, sentences in (
        ("KEPT", aside), ("REMARK", remarks), ("LOST", LOST), ("PROBLEM", problems),
    ):  # fmt: skip
        for sentence in sentences:
            typer.echo(f"{label} {sentence}")
    typer.echo("nothing is changed" if dry_run else "the catalog is made again")


def _row(one: "PlannedTopic", made: "Rebuilt") -> dict[str, Any]:
    topic = one.topic
    indexes = range(topic.partitions)
    return {
        "topic": topic.name,
        "id": topic.id.hex(),
        "number": topic.number,
        "partitions": topic.partitions,
        "configs": dict(topic.configs),
        "deleted": one.is_deleted,
        "starts": {p: one.log_starts.get(p, 0) for p in indexes},
        "ends": {
            p: made.ends.get(topic.key(p), one.table_ends.get(p, 0)) for p in indexes
        },
    }


def _ends_of_transactions(made: "Rebuilt") -> list[str]:
    """One sentence for each transaction that was open."""
    names = {one.topic.number: one.topic.name for one in made.plan.topics}
    found = []
    for one in made.orphans:
        parts = ", ".join(
            f"{names[part.key[0]]}-{part.key[1]} from offset {part.first}"
            for part in one.parts
        )
        why = "no marker says how it ends"
        if one.proof is not None:
            place = f"{names.get(one.proof[0], one.proof[0])}-{one.proof[1]}"
            why = f"{place} has its marker"
        end = "committed" if one.commits else "aborted"
        producer_id = one.parts[0].producer_id
        found.append(
            f"the transaction of producer {producer_id} that is open in {parts} is "
            f"{end} when the broker starts: {why}"
        )
    return found
