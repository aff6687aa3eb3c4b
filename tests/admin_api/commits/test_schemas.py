"""A commit without anything says nothing it does not know."""

from admin_api.commits.schemas import CommitRange


def test_records_of_a_range_may_be_unknown():
    found = CommitRange(partition_id=0, first_offset=1, end_offset=2, records=None)
    assert found.model_dump()["records"] is None
