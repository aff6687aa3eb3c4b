"""Log compaction files of a topic's table: what readers of them see, and no others.

Spark and Delta's kernel take ``X.Y.compacted.json`` in place of the entries X to Y. One
that has an entry that is torn or gone is theirs for whatever comes at that version.
"""

from broker.topics.topic import Topic
from jobs.check_report import Report
from lakehouse.errors import LakehouseError
from lakehouse.log.delta_log import Snapshot, load
from lakehouse.log.log_compactions import present


def check_compactions(snapshot: Snapshot, topic: Topic, report: Report) -> None:
    """Report those that reach beyond the last entry."""
    found = {
        name: last
        for name, _, last in present(snapshot.path)
        if last > snapshot.version and not name.startswith(".")
    }
    try:  # some may be of entries that came since
        now = load(snapshot.path) if found else snapshot
    except LakehouseError:
        return  # who looks at its files next says what became of it
    report.problems += [
        f"{topic.name}: {name} reaches beyond the last entry of its log, "
        f"{now.version}, and Spark would read it in place of the entries to come: "
        f"{_how_it_goes(now)}"
        for name, last in sorted(found.items())
        if last > now.version
    ]


def _how_it_goes(snapshot: Snapshot) -> str:
    if snapshot.torn is None:
        return "start a compactor, which deletes it"
    return (
        "a compactor deletes it with the next records, as it moves the torn entry aside"
    )
