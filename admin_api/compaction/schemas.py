"""What was asked of the compactor, and what came of it."""

from enum import StrEnum

from pydantic import BaseModel, Field

from admin_api.fields import (
    TIME_MS,
    TOPIC,
)
from admin_api.resources import Metadata


class State(StrEnum):
    """RUNNING: not yet; STUCK: it was tried and failed, and is tried again; DONE: all
    that was committed when the compactor saw the request is in the tables."""

    RUNNING = "RUNNING"
    STUCK = "STUCK"
    DONE = "DONE"


class Operation(BaseModel):
    """A request to the compactor; it is forgotten after a day."""

    metadata: Metadata = Field(description="Where it can be asked for again.")
    operation_id: int = Field(description="Its id.", examples=[17])
    topic_names: list[str] | None = Field(
        description="The topics whose tables it is about; null: all.",
        examples=[[TOPIC]],
    )
    state: State = Field(description="How far it is.")
    reason: str | None = Field(
        description="Why it is stuck, or what it waits for.",
        examples=["no compactor is running"],
    )
    asked_ms: int = Field(
        description="When it was asked for, in milliseconds since 1970.",
        examples=[TIME_MS],
    )
    done_ms: int | None = Field(
        description="When it was done; null: it is not yet.", examples=[TIME_MS + 1500]
    )
