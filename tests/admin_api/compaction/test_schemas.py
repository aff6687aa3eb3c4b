"""An operation may be for all topics."""

from admin_api.compaction.schemas import Operation


def test_no_names_are_all_topics():
    assert Operation.model_fields["topic_names"].description == "null: all topics."
