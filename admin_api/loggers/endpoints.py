"""How much the loggers of all parts say, changed while they run."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request

from admin_api.access.guards import ADMIN
from admin_api.dependencies import Text
from admin_api.loggers.parts import Parts
from admin_api.loggers.schemas import Logger, LoggerList, UpdateLogger
from admin_api.problems import Problem

router = APIRouter(prefix="/v1/loggers", tags=["Loggers"])

NAME_LENGTH_MAX = 1_000
"""Longer than any logger's; a part takes no question whose first line is long."""
LoggerName = Annotated[
    Text,
    Path(
        max_length=NAME_LENGTH_MAX,
        description="A logger's name; `lakelog` stands for all.",
        examples=["lakelog.network"],
    ),
]


def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.loggers
    return parts


PartsDep = Annotated[Parts, Depends(_parts)]


@router.get("", summary="List loggers")
async def list_loggers(parts: PartsDep) -> LoggerList:
    """The loggers of broker, compactor and plane with the least that each says now."""
    return LoggerList(data=await parts.loggers())


@router.get("/{logger_name}", summary="Get a logger")
async def get_logger(logger_name: LoggerName, parts: PartsDep) -> Logger:
    """One of them."""
    found = await parts.find(logger_name)
    if found is None:
        raise _unknown(logger_name)
    return found


@router.put("/{logger_name}", dependencies=[ADMIN], summary="Set a logger's level")
async def update_logger(
    logger_name: LoggerName, body: UpdateLogger, parts: PartsDep
) -> Logger:
    """Let it say this and above, until its part ends; `lakelog` sets all of them.

    503 where a part that runs does not answer; the sentence names it, and says whether
    it may do it later. The other parts have changed.
    """
    if not await parts.change(logger_name, body.level):
        raise _unknown(logger_name)
    return Logger(name=logger_name, level=body.level)


def _unknown(name: str) -> Problem:
    return Problem(404, f"There is no logger {name}.")
