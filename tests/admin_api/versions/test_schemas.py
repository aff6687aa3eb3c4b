"""Fields of a version are explained."""

from admin_api.versions.schemas import TableVersion


def test_a_version_that_is_not_exact_is_explained():
    assert "older one" in TableVersion.model_fields["exact"].description
