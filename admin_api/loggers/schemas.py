"""Loggers, as ``/v1`` shows and changes them."""

from enum import StrEnum

from pydantic import BaseModel, Field

from admin_api.fields import (
    shown_as,
)
from admin_api.resources import Body


class Level(StrEnum):
    """The least that is said."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Logger(BaseModel):
    """A logger of a part."""

    name: str = Field(
        description="Its name; `lakelog` stands for all.", examples=["lakelog.network"]
    )
    level: Level = Field(description="The least that it says now.")


class LoggerList(BaseModel):
    """The loggers of all parts."""

    data: list[Logger] = Field(description="Sorted by name.")


class UpdateLogger(Body):
    """What it is to say from now on."""

    model_config = shown_as({"level": "debug"})

    level: Level = Field(description="The least that it says from now on.")
