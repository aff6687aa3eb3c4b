"""Pages of long collections.

Without ``page_size`` a collection comes whole, as Confluent's proxy gives it. With it,
``metadata.next`` is the URL of what follows; its token is the last key that was given,
so that nothing is given twice or left out when topics come and go between two pages.
"""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends, Query

from admin_api.integers import DIGITS
from admin_api.problems import Problem

SIZE_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """What of a collection is wanted: at most ``size`` keys ``after`` one.

    None: all of them, and from the first one on.
    """

    size: int | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """The keys of a page, and the query of the next one ("" at the end)."""

    keys: list[str]
    following: str


def cut(keys: Iterable[str], page: Page) -> Cut:
    """The page of ``keys`` that is wanted, sorted."""
    ordered = sorted(keys)
    start = 0 if page.after is None else bisect_right(ordered, page.after)
    if page.size is None or start + page.size >= len(ordered):
        return Cut(ordered[start:], "")
    chosen = ordered[start : start + page.size]
    return Cut(chosen, following(chosen[-1], page.size))


def following(last: str, size: int) -> str:
    """The query of the page that comes after the key ``last``."""
    token = base64.urlsafe_b64encode(last.encode()).decode()
    return urlencode({"page_size": size, "page_token": token})


TokenQuery = Annotated[
    str | None,
    Query(
        max_length=10_000,
        description="Where the page begins: taken out of `metadata.next` of the page "
        "before, whose URL has it already.",
        examples=["MTA="],
    ),
]


def page(
    page_size: Annotated[
        int | None,
        Query(
            ge=1,
            le=SIZE_MAX,
            description="How many at most; without it all of them come at once.",
            examples=[100],
        ),
        DIGITS,
    ] = None,
    page_token: TokenQuery = None,
) -> Page:
    """The page that a request asks for. Raises Problem 400 for a token not ours."""
    if page_token is None:
        return Page(page_size)
    try:
        after = base64.b64decode(page_token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Problem(400, "page_token: this is no token of a next page") from None
    return Page(page_size, after)


PageDep = Annotated[Page, Depends(page)]

SHORT_DEFAULT = 50
SHORT_MAX = 200


def short_page(
    page_size: Annotated[
        int,
        Query(ge=1, le=SHORT_MAX, description="How many at most.", examples=[20]),
        DIGITS,
    ] = SHORT_DEFAULT,
    page_token: TokenQuery = None,
) -> Page:
    """The page of a collection that never comes whole: each thing in it is looked up
    in files."""
    return page(page_size, page_token)


ShortPageDep = Annotated[Page, Depends(short_page)]


def number_of(after: str) -> int:
    """The number that a token stands for. Raises Problem 400 for a token not ours."""
    if not (after.isascii() and after.isdigit() and len(after) < 20):
        raise Problem(400, "page_token: this is no token of a next page")
    return int(after)
