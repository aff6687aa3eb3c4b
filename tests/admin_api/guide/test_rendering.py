"""Markdown as it lies there becomes a page."""

import re

import pytest

from admin_api.guide.rendering import NoPage, body_html, page_html, pages, slug


def test_a_page_has_its_title_the_others_and_its_text():
    every = pages()
    assert every[0].path == "/guide"
    assert len(every) == len({page.name for page in every}) == 10
    html = page_html("operate")
    assert "<title>Operate - Lakelog</title>" in html
    assert 'href="/guide/operate" aria-current="page">Operate</a>' in html
    assert html.count("aria-current=") == 1
    for page in every:
        assert f'href="{page.path}"' in html
    assert '<h2 id="a-full-disk">A full disk</h2>' in html


def test_a_link_to_a_file_leads_to_its_page():
    html = body_html("[a](index.md) [b](limits.md#limits) [c](https://x.org/a.md)")
    assert re.findall(r'href="([^"]+)"', html) == [
        "/guide",
        "/guide/limits#limits",
        "https://x.org/a.md",
    ]


def test_tables_and_code_are_shown_as_such():
    html = body_html("| a |\n|---|\n| `<b>` |\n\n```sh run\nx > y\n```\n")
    assert "<td><code>&lt;b&gt;</code></td>" in html
    assert "x &gt; y" in html


def test_every_link_to_a_heading_finds_it():
    headings = {
        page.name: {slug(h) for h in re.findall(r"(?m)^#+ (.+)$", page.markdown)}
        for page in pages()
    }
    for page in pages():
        for name, heading in re.findall(
            r"\]\(([a-z-]*)(?:\.md)?#([^)]+)\)", page.markdown
        ):
            assert heading in headings[name or page.name], (page.name, heading)


def test_there_is_no_other_page():
    with pytest.raises(NoPage):
        page_html("nothing")
