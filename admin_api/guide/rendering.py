"""The guide's pages as HTML: Markdown as it lies in ``infra/docs``, no other host.

The same files are read on disk, in a repository's browser and here; so a link leads
from file to file, and is turned into one from page to page. A heading can be linked to
by its text in lower case with hyphens, as those browsers do it.
"""

import re
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

PATH: Final = "/guide"
FIRST: Final = "index"
_PAGE_LINK: Final = re.compile(r"([a-z-]+)\.md(#.*)?\Z")
_TITLE: Final = re.compile(r"# (.+)")
_STYLE: Final = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto;
       padding: 1rem; color: #1d2733; background: #fff; }
nav a { margin-right: 1rem; }
nav { border-bottom: 1px solid #ccd5dd; padding: .5rem 0; }
a { color: #0b5cad; } a[aria-current] { color: inherit; font-weight: 600; }
pre { background: #f3f5f8; padding: .8rem; overflow-x: auto; border-radius: 4px; }
code { font: 14px/1.45 ui-monospace, monospace; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid #ccd5dd; padding: .3rem .6rem; text-align: left;
         vertical-align: top; }"""


class NoPage(Exception):
    """The guide has no page of this name."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it lies there."""

    name: str
    title: str
    markdown: str

    @property
    def path(self) -> str:
        """Where it is served."""
        return PATH if self.name == FIRST else f"{PATH}/{self.name}"


def pages() -> list[Page]:
    """All pages; the first one first, then in the order in which it links to them."""
    folder = files("admin_api.guide") / "pages"
    found = {page.name: page for page in map(_page, folder.iterdir()) if page}
    first = found[FIRST].markdown
    linked = re.findall(r"\]\(([a-z-]+)\.md", first)
    return [found[name] for name in dict.fromkeys([FIRST, *linked])]


def _page(file: Traversable) -> Page | None:
    name, _, kind = file.name.rpartition(".")
    if kind != "md":
        return None
    text = file.read_text(encoding="utf-8")
    title = _TITLE.match(text)
    assert title is not None, f"{file.name} begins with no title"
    return Page(name, title[1], text)


def page_html(name: str) -> str:
    """The whole page. Raises NoPage."""
    every = pages()
    wanted = next((page for page in every if page.name == name), None)
    if wanted is None:
        raise NoPage(name)
    links = "".join(_link(page, wanted) for page in every)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(wanted.title)} - Lakelog</title><style>{_STYLE}</style></head>"
        f'<body><nav>{links}<a href="/docs">REST</a></nav><main>'
        f"{body_html(wanted.markdown)}</main></body></html>\n"
    )


def _link(page: Page, current: Page) -> str:
    mark = ' aria-current="page"' if page is current else ""
    return f'<a href="{page.path}"{mark}>{escape(page.title)}</a>'


def body_html(markdown: str) -> str:
    """HTML of a page's text."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = parser.parse(markdown)
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            before.attrSet("id", slug(token.content))
        for child in token.children or ():
            _lead_to_page(child)
    return str(parser.renderer.render(tokens, parser.options, {}))


def slug(heading: str) -> str:
    """What a link to a heading ends in."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def _lead_to_page(token: Token) -> None:
    if token.type != "link_open":
        return
    match = _PAGE_LINK.match(str(token.attrGet("href")))
    if match is not None:
        path = PATH if match[1] == FIRST else f"{PATH}/{match[1]}"
        token.attrSet("href", path + (match[2] or ""))
