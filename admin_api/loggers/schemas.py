"""Loggers, as ``/v1`` shows and changes them."""

from enum import StrEnum

from pydantic import BaseModel, Field

from admin_api.resources import Body


class Level(StrEnum):
    """The least that is said."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Logger(BaseModel):
    """A logger of a part."""

    name: str = Field(examples=["lakelog.network"])
    level: Level


class LoggerList(BaseModel):
    data: list[Logger]


class UpdateLogger(Body):
    """What it is to say from now on."""

    level: Level
