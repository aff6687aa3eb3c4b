"""What a table says of its topic, so that a catalog can be made again from tables.

The problem: which topics there are, how they are configured and where their logs start
stands in the catalog alone, and a catalog can be lost. The idea: each table says it of
its own topic. Name, id, number, partitions and configurations are table properties,
since they seldom change. Log starts change all the time, and an entry that changes a
property makes whoever changes the table meanwhile try again; so a start is a ``txn``
action, which stands in nobody's way and survives in checkpoints, too.

Pure. The price: a table says what held when its log was last written.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from lakehouse.properties import CONFIGS, PARTITIONS, TOPIC, TOPIC_ID, TOPIC_NUMBER

_START: Final = "start"


class TopicFacts(NamedTuple):
    """A topic as the catalog knows it. ``id``: 32 hex digits. ``number``: by which
    segments name it; ``configs``: its own settings. None: the table does not say."""

    name: str
    id: str
    partitions: int
    number: int | None = None
    configs: Mapping[str, str] | None = None


def properties_of(facts: TopicFacts) -> dict[str, str]:
    """Table properties that say these facts."""
    said = {
        TOPIC: facts.name,
        TOPIC_ID: facts.id,
        PARTITIONS: str(facts.partitions),
    }
    if facts.number is not None:
        said[TOPIC_NUMBER] = str(facts.number)
    if facts.configs is not None:
        configs = dict(sorted(facts.configs.items()))
        said[CONFIGS] = json.dumps(configs, separators=(",", ":"))
    return said


def facts_of(configuration: Mapping[str, str]) -> TopicFacts | None:
    """The facts that table properties say; None if they name no topic. What cannot be
    understood is not said."""
    name, topic_id = configuration.get(TOPIC), configuration.get(TOPIC_ID)
    if not name or not topic_id or not _is_id(topic_id):
        return None
    return TopicFacts(
        name,
        topic_id,
        max(1, _number(configuration.get(PARTITIONS)) or 1),
        _number(configuration.get(TOPIC_NUMBER)),
        _configs(configuration.get(CONFIGS)),
    )


def start_application(topic_id: str, partition: int) -> str:
    """The ``txn`` application id whose version is where a partition's log starts."""
    return f"{topic_id}/{partition}/{_START}"


def log_starts_of(transactions: Mapping[str, int], topic_id: str) -> dict[int, int]:
    """Partition -> where its log starts, as the ``txn`` actions of this topic say."""
    found = {}
    for application, offset in transactions.items():
        whose, _, rest = application.partition("/")
        partition, _, what = rest.partition("/")
        if whose == topic_id and what == _START and _number(partition) is not None:
            found[int(partition)] = offset
    return found


def _is_id(text: str) -> bool:
    return len(text) == 32 and not set(text) - set("0123456789abcdef")


def _number(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 9:
        return None
    return int(text)


def _configs(text: str | None) -> dict[str, str] | None:
    try:
        found = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return {key: value for key, value in found.items() if isinstance(value, str)}
