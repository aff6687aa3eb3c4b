"""Whether a table that is not a topic's was: its owner replaced it.

The problem: CREATE OR REPLACE TABLE leaves nothing of what a table said of its topic.
Taken for one that is in the way, and moved away, a new one would be made in its place,
of what the log still has: with what its owner had deleted. The idea: the commits of the
topic stay in the table's state whoever replaces it, and RESTORE brings the rest back.
"""

from lakehouse.errors import LakehouseError
from lakehouse.log.delta_log import Snapshot, entries_before, load_version, table_ends
from lakehouse.properties import TOPIC_ID


def why_replaced(found: Snapshot, topic_id: str) -> str | None:
    """One sentence if this topic's commits are in a table that is not the topic's any
    more, with the way back; None: there are none."""
    if not table_ends(found, topic_id):
        return None
    version = _replaced_in(found, topic_id)
    when = "" if version is None else f"in version {version} "
    back = "the version before" if version is None else f"version {version - 1}"
    return (
        f"{found.path} was replaced {when}by its owner, or lost its topic's id: "
        f"RESTORE it to {back}, and delete again what was deleted since"
    )


def _replaced_in(found: Snapshot, topic_id: str) -> int | None:
    """The version that took the topic's id out, if the one before can be made of the
    log; None: the newest entries, as far as they are asked, do not tell."""
    version = _taken_out_in(found, topic_id)
    if version is not None:
        try:
            load_version(found.path, version - 1)
        except (LakehouseError, OSError):
            return None
    return version


def _taken_out_in(found: Snapshot, topic_id: str) -> int | None:
    version = None
    for commit in entries_before(found):
        said = commit.metadata
        names = {} if said is None else dict(said.configuration)
        if names.get(TOPIC_ID) == topic_id or topic_id in commit.transactions:
            return version
        if said is not None:
            version = commit.version
    return None
