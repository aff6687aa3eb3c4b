"""Pages: each key once, whatever comes and goes between."""

from urllib.parse import parse_qs, parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_api.paging import Page, cut, page
from admin_api.problems import Problem


def following(query: str) -> Page:
    """The page that a client asks for which follows ``metadata.next``."""
    found = parse_qs(query)
    return page(int(found["page_size"][0]), found["page_token"][0])


@given(st.sets(st.text(min_size=1)), st.integers(1, 5))
def test_pages_together_are_the_whole(keys, size):
    found, wanted = [], Page(size)
    while True:
        one = cut(keys, wanted)
        assert len(one.keys) <= size
        found += one.keys
        if not one.following:
            break
        wanted = following(one.following)
    assert found == sorted(keys)


def test_without_a_size_all_come():
    assert cut(["b", "a"], Page()).keys == ["a", "b"]
    assert cut(["b", "a"], Page()).following == ""


def test_a_key_that_went_away_between_two_pages_hides_no_other():
    first = cut(["a", "b", "c", "d"], Page(2))
    assert cut(["a", "c", "d"], following(first.following)).keys == ["c", "d"]


@pytest.mark.parametrize("token", ["!", "ab", "_w==", "é"])
def test_a_token_that_is_not_ours_is_refused_in_words(token):
    with pytest.raises(Problem, match="page_token") as caught:
        page(1, token)
    assert caught.value.status == 400


def test_a_page_that_ends_with_an_empty_key_leads_on():
    keys, token, seen = ["b", "", "a"], None, []
    for _ in keys:
        found = cut(keys, page(1, token))
        seen += found.keys
        token = dict(parse_qsl(found.following, keep_blank_values=True)).get(
            "page_token"
        )
    assert (seen, token) == (["", "a", "b"], None)
