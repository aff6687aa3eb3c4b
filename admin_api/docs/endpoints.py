"""``/docs``: the OpenAPI document as a page, from files that lie beside us.

Scripts and styles are Swagger UI's, out of the package ``fastapi-offline``: no
other host is asked for anything, so the page works where there is no way out.
"""

from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.openapi.docs import get_swagger_ui_html

from admin_api.problems import Problem

router = APIRouter(include_in_schema=False)

DESCRIPTION = """\
Administers a Lakelog broker in the shape of Confluent's REST API v3 (`/v3`), and shows
the Delta tables that its topics are (`/v1`).

Every error is `{"error_code": ..., "message": ...}`: the first three digits of the code
are the HTTP status. A collection comes whole, or in pages with `page_size`;
`metadata.next` is then the URL of the next one."""

MEDIA_TYPES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}


@router.get("/docs")
async def docs() -> Response:
    """The page."""
    return get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="Lakelog REST Admin API",
        swagger_js_url="/docs/swagger-ui-bundle.js",
        swagger_css_url="/docs/swagger-ui.css",
        swagger_favicon_url="/docs/favicon.png",
        swagger_ui_parameters={"validatorUrl": None},  # else it asks a foreign host
    )


@router.get("/docs/{name}")
def docs_file(name: Annotated[str, Path()]) -> Response:
    """A file that the page loads."""
    if name not in MEDIA_TYPES:
        raise Problem(404, f"The docs have no file {name}.")
    found = files("fastapi_offline") / "static" / name
    return Response(found.read_bytes(), media_type=MEDIA_TYPES[name])
