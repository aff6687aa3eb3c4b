"""How much the broker's loggers say, changed while it runs."""

from typing import Annotated

from fastapi import APIRouter, Path

from admin_api.access.guards import ADMIN
from admin_api.dependencies import InternalDep, Text
from admin_api.internal import Internal
from admin_api.loggers.schemas import Logger, LoggerList, UpdateLogger
from admin_api.problems import Problem

router = APIRouter(prefix="/v1/loggers", tags=["Loggers"])

LoggerName = Annotated[
    Text, Path(description="A logger's name; `lakelog` stands for all.")
]


def _unknown(name: str) -> Problem:
    return Problem(404, f"The broker has no logger {name}.")


async def _find(internal: Internal, name: str) -> Logger:
    for row in await internal.rows("loggers"):
        if row["name"] == name:
            return Logger(**row)
    raise _unknown(name)


@router.get("", summary="List loggers")
async def list_loggers(internal: InternalDep) -> LoggerList:
    """The broker's loggers with the least that each of them says now."""
    return LoggerList(data=[Logger(**row) for row in await internal.rows("loggers")])


@router.get("/{logger_name}", summary="Get a logger")
async def get_logger(logger_name: LoggerName, internal: InternalDep) -> Logger:
    """One of them."""
    return await _find(internal, logger_name)


@router.put("/{logger_name}", dependencies=[ADMIN], summary="Set a logger's level")
async def update_logger(
    logger_name: LoggerName, body: UpdateLogger, internal: InternalDep
) -> Logger:
    """Let it say this and above, until the broker ends; `lakelog` sets all of them."""
    if not await internal.change_level(logger_name, body.level):
        raise _unknown(logger_name)
    return await _find(internal, logger_name)
