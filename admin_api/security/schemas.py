"""How each listener is guarded, as ``/v1`` shows it."""

from enum import StrEnum

from pydantic import BaseModel, Field


class Issue(StrEnum):
    """What a listener lacks."""

    NO_TLS = "NO_TLS"
    NO_AUTHN = "NO_AUTHN"
    NO_AUTHZ = "NO_AUTHZ"


class Interface(BaseModel):
    """One listener."""

    name: str = Field(examples=["kafka"])
    address: str = Field(examples=["127.0.0.1:9092"])
    is_loopback: bool = Field(description="Only its own machine reaches it.")
    tls_enabled: bool
    authentication_method: str = Field(
        examples=["NONE", "BEARER", "FILE_MODE", "SECRET"]
    )
    authorization_enabled: bool


class Alert(BaseModel):
    """What to look at: a listener that others reach lacks something."""

    affected_interface: str
    issue: Issue
    description: str


class SecurityReport(BaseModel):
    """Each listener's state, and what follows."""

    interfaces: list[Interface]
    alerts: list[Alert] = Field(
        description="Of listeners that are not on loopback; none is as it should be."
    )
    tokens: dict[str, int] | None = Field(
        description="How many of each role are good; null: none was ever made."
    )
