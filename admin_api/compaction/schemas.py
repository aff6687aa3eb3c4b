"""What was asked of the compactor, and what came of it."""

from enum import StrEnum

from pydantic import BaseModel, Field

from admin_api.resources import Metadata


class State(StrEnum):
    """RUNNING: not yet; STUCK: it was tried and failed, and is tried again; DONE: all
    that was committed when the compactor saw the request is in the tables."""

    RUNNING = "RUNNING"
    STUCK = "STUCK"
    DONE = "DONE"


class Operation(BaseModel):
    """A request to the compactor; it is forgotten after a day."""

    metadata: Metadata
    operation_id: int = Field(examples=[17])
    topic_names: list[str] | None = Field(description="null: all topics.")
    state: State
    reason: str | None = Field(
        description="Why it is stuck, or what it waits for.",
        examples=["no compactor is running"],
    )
    asked_ms: int = Field(description="Since 1970.")
    done_ms: int | None = Field(description="null: it is not done.")
