"""The alerts' names are those of other brokers' reports."""

from admin_api.security.schemas import Issue


def test_the_issues_have_their_known_names():
    assert list(Issue) == ["NO_TLS", "NO_AUTHN", "NO_AUTHZ"]
