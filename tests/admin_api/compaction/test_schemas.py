"""An operation may be for all topics."""

from admin_api.compaction.schemas import Operation


def test_no_names_are_all_topics():
    said = Operation.model_fields["topic_names"].description
    assert said == "The topics whose tables it is about; null: all."
