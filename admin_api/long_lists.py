"""A collection that may have ten thousand entries, written out beside the loop.

Made where endpoints run, ten thousand topics are 300 ms in which nobody else is
answered, not even who asks whether the plane lives. On a thread they take as long, and
the loop has its turns meanwhile, as often as the interpreter's lock goes round.
"""

import asyncio
from collections.abc import Callable

from fastapi import Response
from pydantic import BaseModel


async def written(made: Callable[[], BaseModel]) -> Response:
    """The answer that ``made`` makes; both are done on a thread."""
    return Response(
        await asyncio.to_thread(lambda: made().model_dump_json(by_alias=True)),
        media_type="application/json",
    )
