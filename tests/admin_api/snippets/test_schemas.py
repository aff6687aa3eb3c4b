"""A snippet says what it needs."""

from admin_api.snippets.templates import snippets


def test_every_snippet_says_what_has_to_be_installed():
    assert all(one.requires and one.language for one in snippets("/t"))
