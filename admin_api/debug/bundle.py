"""A debug bundle: one archive of what somebody needs who was not there.

Every part is bounded and stands for itself: one that cannot be had is named in
`manifest.json` with its reason, and the others are there. No token, hash, environment
or record is in it; settings name files of keys, and nothing opens them.
"""

import asyncio
import io
import json
import platform
import sys
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

PART_BYTES_MAX: Final = 4 << 20
TAIL_BYTES: Final = 256 << 10
FILES_MAX: Final = 5_000
NAMED: Final = frozenset(
    ("lakelog", "confluent-kafka", "deltalake", "pyarrow", "pyspark", "uvicorn")
)

Part = Callable[[], Awaitable[bytes]]


async def gather(parts: Mapping[str, Part]) -> tuple[dict[str, bytes], dict[str, str]]:
    """The parts that could be had, by name, and why the others could not.

    They are asked for together: who hangs is waited for once, not for each question.
    """
    tried = await asyncio.gather(*(_tried(part) for part in parts.values()))
    said = dict(zip(parts, tried, strict=True))
    found = {name: one for name, one in said.items() if isinstance(one, bytes)}
    missing = {name: one for name, one in said.items() if isinstance(one, str)}
    return found, missing


async def _tried(part: Part) -> bytes | str:
    """A part, or why it cannot be had."""
    try:
        return (await part())[:PART_BYTES_MAX]
    except Exception as error:  # noqa: BLE001 - the others are worth having
        return f"{type(error).__name__}: {error}"[:500]


def archive(
    found: Mapping[str, bytes], missing: Mapping[str, str], now_ms: int
) -> bytes:
    """All parts as a tar, compressed. Blocks."""
    manifest = {
        "created_ms": now_ms,
        "python": sys.version,
        "platform": platform.platform(),
        "packages": packages(),
        "parts": {name: len(part) for name, part in found.items()},
        "missing": dict(missing),
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=6) as tar:
        for name, part in {"manifest.json": as_json(manifest), **found}.items():
            member = tarfile.TarInfo(f"lakelog-debug/{name}")
            member.size, member.mtime = len(part), now_ms // 1000
            tar.addfile(member, io.BytesIO(part))
    return out.getvalue()


def packages() -> dict[str, str]:
    """The versions of what matters."""
    return {
        name: one.version
        for one in distributions()
        if (name := str(one.metadata["Name"]).lower()) in NAMED
    }


def as_json(what: Any) -> bytes:
    """Indented, for people."""
    return json.dumps(what, indent=1, default=str).encode(errors="replace")


def tail(path: Path) -> bytes:
    """The end of a log file. Raises OSError."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        return file.read(TAIL_BYTES)


def listing(directory: Path) -> bytes:
    """Names and sizes of the files in a directory. Raises OSError."""
    files = sorted(one for one in directory.iterdir() if one.is_file())
    return as_json(
        [{"name": one.name, "bytes": one.stat().st_size} for one in files[:FILES_MAX]]
    )
