"""What a handler is told beside its request: who asks, in which version, of whom."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.dispatch.registry import Registry
    from broker.runtime.services import Broker


@dataclass(slots=True)
class Software:
    """What the client at the other end calls itself (KIP-511); empty until it does."""

    name: str = ""
    version: str = ""


@dataclass(slots=True)
class Context:
    """The circumstances of a request. A handler reads it and keeps no piece of it.

    The same object may be handed to several requests of a connection, one after the
    other, as long as nothing in it differs.
    """

    version: int
    client_id: str | None
    key: int
    peer_host: str
    broker: "Broker"
    listener: str = ""
    software: Software = field(default_factory=Software)
    apis: "Registry | None" = None
