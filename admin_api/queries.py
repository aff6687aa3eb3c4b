"""Parameters of a query that a route does not know, below ``/v1``.

A filter, a limit or a timeout that is spelled wrongly would be passed over in silence,
and another question answered. Below ``/v3`` they are ignored, as by Confluent's proxy.
"""

from collections.abc import Iterator
from typing import Any, Final

from fastapi import Depends, Request

from admin_api.problems import Problem

_SHOWN_MAX: Final = 80
"""Characters of a name that is quoted."""


async def _refuse_unknown(request: Request) -> None:
    known = set(_names(request.scope["route"].dependant))
    for name in request.query_params:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none at all"
            raise Problem(
                400,
                f'There is no parameter "{name[:_SHOWN_MAX]}" here; there are '
                f"{listed}.",
            )


def _names(dependant: Any) -> Iterator[str]:
    """Of a route and of all that it depends on, as FastAPI's Dependant has them."""
    yield from (field.alias for field in dependant.query_params)
    for below in dependant.dependencies:
        yield from _names(below)


KNOWN_QUERY: Final = Depends(_refuse_unknown)
"""Of a router: it raises Problem 400 for a parameter that a route of it has not."""
