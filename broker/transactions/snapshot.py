"""The text of a transactional id in the catalog.

JSON, so that a person can read it, as the groups' (``broker/groups/snapshot.py``). The
price is what JSON takes of a transaction of many partitions: 9 bytes each.
"""

import json

from broker.transactions.metadata import TransactionMetadata
from broker.transactions.states import TransactionState

_VERSION = 1


def encode(metadata: TransactionMetadata) -> str:
    """The value as text, ASCII only."""
    fields = metadata._asdict() | {
        "version": _VERSION,
        "transaction_version": metadata.version,
        "partitions": sorted(metadata.partitions),
        "groups": sorted(metadata.groups),
    }
    if not metadata.starts:
        del fields["starts"]
    return json.dumps(fields, separators=(",", ":"))


def decode(text: str) -> TransactionMetadata:
    """The value of a text. Raises ValueError if it is not one of ours."""
    try:
        fields = json.loads(text)
        version = fields.pop("version")
        if version != _VERSION:
            raise ValueError(f"a transaction has the unknown version {version}")
        given = {
            "version": fields.pop("transaction_version"),
            "state": TransactionState(fields["state"]),
            "partitions": frozenset((t, p) for t, p in fields["partitions"]),
            "groups": frozenset(fields["groups"]),
        }
        starts = fields.pop("starts", ())  # the version before wrote none
        given["starts"] = tuple(((t, p), offset) for (t, p), offset in starts)
        return TransactionMetadata(**fields | given)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no metadata of a transaction: {error!r}") from error
