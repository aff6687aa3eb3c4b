"""The docs are a page that needs no other host."""

import re

import pytest


def test_what_the_page_loads_is_here(lonely):
    page = lonely.get("/docs")
    assert page.status_code == 200
    assert "//" not in page.text.replace("<!-- ", "").split("<script>")[0]
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) == 3
    for path in loaded:
        assert path.startswith("/docs/")
        answer = lonely.get(path)
        assert answer.status_code == 200
        assert len(answer.content) > 1000
    assert "https://" not in page.text
    assert '"validatorUrl": null' in page.text
    assert "url: '/openapi.json'" in page.text


def test_the_document_is_there_without_a_broker(lonely):
    document = lonely.get("/openapi.json").json()
    assert document["info"]["title"] == "Lakelog REST Admin API"
    assert "/v3/clusters/{cluster_id}/topics" in document["paths"]


@pytest.mark.parametrize("name", ["other.js", "..", "..%2f__init__.py"])
def test_no_other_file_is_given(lonely, name):
    assert lonely.get(f"/docs/{name}").status_code == 404
