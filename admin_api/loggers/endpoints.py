"""How much the loggers of all parts say, changed while they run."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request

from admin_api.access.guards import ADMIN
from admin_api.dependencies import Text
from admin_api.loggers.parts import Parts
from admin_api.loggers.schemas import Logger, LoggerList, UpdateLogger
from admin_api.problems import Problem

router = APIRouter(prefix="/v1/loggers", tags=["Loggers"])

LoggerName = Annotated[
    Text, Path(description="A logger's name; `lakelog` stands for all.")
]


def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.loggers
    return parts


PartsDep = Annotated[Parts, Depends(_parts)]


async def _find(parts: Parts, name: str) -> Logger:
    for logger in await parts.loggers():
        if logger.name == name:
            return logger
    raise Problem(404, f"There is no logger {name}.")


@router.get("", summary="List loggers")
async def list_loggers(parts: PartsDep) -> LoggerList:
    """The loggers of broker, compactor and plane with the least that each says now."""
    return LoggerList(data=await parts.loggers())


@router.get("/{logger_name}", summary="Get a logger")
async def get_logger(logger_name: LoggerName, parts: PartsDep) -> Logger:
    """One of them."""
    return await _find(parts, logger_name)


@router.put("/{logger_name}", dependencies=[ADMIN], summary="Set a logger's level")
async def update_logger(
    logger_name: LoggerName, body: UpdateLogger, parts: PartsDep
) -> Logger:
    """Let it say this and above, until its part ends; `lakelog` sets all of them."""
    if not await parts.change(logger_name, body.level):
        raise Problem(404, f"There is no logger {logger_name}.")
    return await _find(parts, logger_name)
