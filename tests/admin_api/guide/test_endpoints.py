"""The guide is there for anybody, without a broker, and names no other host."""

import re

import pytest

from admin_api.access.tokens import Role, Tokens
from admin_api.guide.rendering import pages


def test_every_page_is_served_and_leads_only_to_pages_that_are(lonely):
    Tokens(lonely.data_dir).create(Role.VIEWER, "", 0)  # and a stranger reads on
    for page in pages():
        answer = lonely.get(page.path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        for link in re.findall(r'href="([^"#]+)(?:#[^"]*)?"', answer.text):
            assert link.startswith("/"), link
            assert lonely.get(link).status_code == 200, link
        assert not re.findall(r'(?:src|href)="(?:https?:)?//', answer.text)
        assert "<script" not in answer.text


@pytest.mark.parametrize("name", ["nothing", "..%2fREADME", "index.md", "%00"])
def test_no_other_page_is_given(lonely, name):
    answer = lonely.get(f"/guide/{name}")
    assert answer.status_code == 404
    assert "guide has no page" in answer.json()["message"]
