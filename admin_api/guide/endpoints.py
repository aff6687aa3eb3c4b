"""``/guide``: the guide for people, out of files that lie beside us."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse

from admin_api.guide.rendering import FIRST, NoPage, page_html
from admin_api.problems import Problem

router = APIRouter(include_in_schema=False)


@router.get("/guide")
def first_page() -> HTMLResponse:
    """What there is to read."""
    return HTMLResponse(page_html(FIRST))


@router.get("/guide/{name}")
def page(name: Annotated[str, Path()]) -> HTMLResponse:
    """One page."""
    try:
        return HTMLResponse(page_html(name))
    except NoPage:
        raise Problem(404, f"The guide has no page {name}.") from None
