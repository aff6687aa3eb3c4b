"""What is null is explained."""

from admin_api.overview.schemas import Health


def test_parts_that_may_be_null_say_when():
    for name in ("compactor", "disk", "tables_disk"):
        assert Health.model_fields[name].description.startswith("null: ")
