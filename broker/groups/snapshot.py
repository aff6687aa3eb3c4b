"""What of a group outlives the broker, and its text.

The problem: members would go on as if nothing had happened when a broker comes back, if
only it knew them. The idea, Kafka's (``GroupMetadataValue``): each time a generation is
complete, all that defines it is written down in one piece; whoever reads it can answer
the heartbeats and commits of that generation. What is under way (parked requests, ids
that were given and not used, who has not synced) is not in it: clients ask again.

The text is JSON with bytes in base64, so that a person can read it in the catalog. The
price is a third more bytes than there need to be; a group of four hundred has a few
hundred kilobytes. Unlike Kafka we keep every assignor's metadata and not only that of
the chosen one, or each member that joins again would seem to have changed its mind.
"""

import json
from base64 import b64decode, b64encode
from typing import Any, NamedTuple

_VERSION = 1

Protocols = tuple[tuple[str, bytes], ...]  # (assignor, metadata), most wanted first


class MemberSnapshot(NamedTuple):
    """A member of a complete generation; the fields that ``Member`` begins with."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes


class GroupSnapshot(NamedTuple):
    """A group that is stable, or, without members, empty since ``empty_since_ms``."""

    protocol_type: str
    generation: int
    protocol_name: str
    leader_id: str
    empty_since_ms: int | None
    members: tuple[MemberSnapshot, ...] = ()


def encode(snapshot: GroupSnapshot) -> str:
    """The snapshot as text, ASCII only."""
    fields = snapshot._asdict() | {
        "version": _VERSION,
        "members": [_encode_member(member) for member in snapshot.members],
    }
    return json.dumps(fields, separators=(",", ":"))


def decode(text: str) -> GroupSnapshot:
    """The snapshot of a text. Raises ValueError if it is not one of ours."""
    try:
        fields = json.loads(text)
        version = fields.pop("version")
        members = tuple(_decode_member(member) for member in fields.pop("members"))
        snapshot = GroupSnapshot(**fields, members=members)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no metadata of a group: {error!r}") from error
    if version != _VERSION:
        raise ValueError(f"metadata of a group has the unknown version {version}")
    return snapshot


def _encode_member(member: MemberSnapshot) -> dict[str, Any]:
    return member._asdict() | {
        "protocols": [(name, _text(metadata)) for name, metadata in member.protocols],
        "assignment": _text(member.assignment),
    }


def _decode_member(fields: dict[str, Any]) -> MemberSnapshot:
    protocols = tuple((n, b64decode(metadata)) for n, metadata in fields["protocols"])
    given = {"protocols": protocols, "assignment": b64decode(fields["assignment"])}
    return MemberSnapshot(**fields | given)


def _text(data: bytes) -> str:
    return b64encode(data).decode()
