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

    name: str = Field(description="Which listener it is.", examples=["kafka"])
    address: str = Field(description="Where it listens.", examples=["127.0.0.1:9092"])
    is_loopback: bool = Field(description="Only its own machine reaches it.")
    tls_enabled: bool = Field(description="Whether it speaks TLS.")
    authentication_method: str = Field(
        description="How callers show who they are: `NONE`, `BEARER` (a token), "
        "`FILE_MODE` (a socket that only its owner may open) or `SECRET`.",
        examples=["NONE"],
    )
    authorization_enabled: bool = Field(
        description="Whether it decides who may do what."
    )


class Alert(BaseModel):
    """What to look at: a listener that others reach lacks something."""

    affected_interface: str = Field(
        description="The name of the listener.", examples=["kafka"]
    )
    issue: Issue = Field(description="What it lacks.")
    description: str = Field(
        description="The same in a sentence.",
        examples=["kafka (0.0.0.0:9092) speaks no TLS."],
    )


class SecurityReport(BaseModel):
    """Each listener's state, and what follows."""

    interfaces: list[Interface] = Field(description="One for each listener.")
    alerts: list[Alert] = Field(
        description="Of listeners that are not on loopback; none is as it should be."
    )
    tokens: dict[str, int] | None = Field(
        description="How many of each role are good; null: none was ever made.",
        examples=[{"viewer": 1, "operator": 0, "admin": 1}],
    )
