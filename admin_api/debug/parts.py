"""What is in a debug bundle, and who knows it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from admin_api.debug.bundle import Part, as_json, listing, tail
from admin_api.internal import Internal
from admin_api.overview.report import report
from admin_api.settings.schemas import describe
from admin_api.tables.survey import Sources, summary, survey
from broker.settings import Settings
from broker.status.file import path_of
from broker.status.schema import BrokerStatus, CompactorStatus
from broker.status.stacks import stacks

TABLES_MAX: Final = 200
OF_BROKER: Final = ("connections", "segments", "loggers", "stacks", "log")
OF_COMPACTOR: Final = ("loggers", "stacks")


@dataclass(frozen=True, slots=True)
class Known:
    """Whom to ask."""

    settings: Settings
    internal: Internal
    compactor: Internal
    sources: Sources
    lines: Sequence[str]
    """What the plane logged last."""


def parts_of(known: Known) -> dict[str, Part]:
    """Each part by the name of its file."""
    data_dir = known.settings.data_dir
    parts: dict[str, Part] = {
        "settings.json": lambda: _settings(known),
        "health.json": lambda: _health(known),
        "tables.json": lambda: _tables(known),
        "status/broker.json": _read(path_of(data_dir, BrokerStatus).read_bytes),
        "status/compactor.json": _read(path_of(data_dir, CompactorStatus).read_bytes),
        "wal.json": _read(lambda: listing(data_dir / "wal")),
        "spark-log.txt": _read(lambda: tail(data_dir / "run" / "spark.log")),
        "admin/log.txt": _read(lambda: "\n".join(known.lines).encode()),
        "admin/stacks.json": _read(lambda: as_json(list(stacks()))),
    }
    for question in OF_BROKER:
        parts[f"broker/{question}.json"] = _asked(known.internal, question)
    for question in OF_COMPACTOR:
        parts[f"compactor/{question}.json"] = _asked(known.compactor, question)
    return parts


def _read(part: "object") -> Part:
    async def read() -> bytes:
        found: bytes = await asyncio.to_thread(part)  # type: ignore[arg-type]
        return found

    return read


def _asked(internal: Internal, question: str) -> Part:
    async def ask() -> bytes:
        return as_json(await internal.rows(question))

    return ask


async def _settings(known: Known) -> bytes:
    return as_json([one.model_dump() for one in describe(known.settings).data])


async def _health(known: Known) -> bytes:
    lake, _, kafka, status = known.sources
    return (await report(kafka, status, lake)).model_dump_json(indent=1).encode()


async def _tables(known: Known) -> bytes:
    names = await asyncio.to_thread(known.sources[0].names)
    found = await survey(known.sources, sorted(names)[:TABLES_MAX])
    return as_json([summary("", one).model_dump() for one in found])
