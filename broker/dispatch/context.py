"""What a handler is told beside its request: who asks, in which version, of whom."""

from dataclasses import dataclass, field

from broker.dispatch.registry import Listed
from broker.runtime.services import Broker


@dataclass(slots=True)
class Software:
    """What the client at the other end calls itself (KIP-511); empty until it does."""

    name: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip() or "unknown"


@dataclass(slots=True)
class Context:
    """The circumstances of a request. A handler reads it and changes nothing in it.

    The same object is handed to all requests of a connection that agree in what is
    here. ``listed`` is what ApiVersions lists. ``software`` belongs to the connection.
    """

    version: int
    client_id: str | None
    key: int
    peer_host: str
    broker: Broker
    listener: str = ""
    software: Software = field(default_factory=Software)
    listed: tuple[Listed, ...] = ()
