"""Log compaction files of a topic's table: what readers of them see, and no others.

Spark and Delta's kernel take ``X.Y.compacted.json`` in place of the entries X to Y. One
that has an entry that is torn or gone is theirs for whatever comes at that version; and
one that is no copy, as a power cut leaves it, is what they see.
"""

from broker.topics.topic import Topic
from jobs.check_report import Report
from lakehouse.errors import LakehouseError
from lakehouse.log.compaction_repair import expires, why_no_copy
from lakehouse.log.delta_log import Snapshot, load
from lakehouse.log.log_compactions import present


def check_compactions(snapshot: Snapshot, topic: Topic, report: Report) -> None:
    """Report those that reach beyond the last entry, and those that are no copies."""
    found = {name: last for name, _, last in present(snapshot.path) if name[0] != "."}
    now = snapshot
    if max(found.values(), default=-1) > snapshot.version:
        try:
            now = load(snapshot.path)  # some may be of entries that came since
        except LakehouseError:
            return  # who looks at its files next says what became of it
    for name, last in sorted(found.items()):
        why = _why_wrong(now, name, last)
        if why is not None:
            report.problems.append(f"{topic.name}: {name} {why}")


def _why_wrong(snapshot: Snapshot, name: str, last: int) -> str | None:
    if last > snapshot.version:
        return (
            f"reaches beyond the last entry of its log, {snapshot.version}, and Spark "
            f"would read it in place of the entries to come: {_how_it_goes(snapshot)}"
        )
    why = why_no_copy(snapshot.path, name, expires=expires(snapshot))
    if why is None:
        return None
    return (
        f"of its log is no copy of its entries ({why}), and Spark reads it in place of "
        "these: delete it"
    )


def _how_it_goes(snapshot: Snapshot) -> str:
    if snapshot.torn is None:
        return "start a compactor, which deletes it"
    return (
        "a compactor deletes it with the next records, as it moves the torn entry aside"
    )
