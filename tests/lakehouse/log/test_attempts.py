"""A commit is judged on what the table is when its entry is put."""

import pytest

from lakehouse.errors import CommitRefused
from lakehouse.log.attempts import COMMIT_ATTEMPTS, commit_judged, current
from lakehouse.log.delta_log import load
from tests.support.tables import TOPIC_ID, Writer


@pytest.fixture
def writer(tmp_path):
    return Writer(str(tmp_path))


def test_it_is_judged_anew_behind_whoever_was_faster(writer):
    table, judged = load(writer.path), []

    def put(version):
        if len(judged) < 3:
            writer.add(0, version * 10, version * 10 + 10)
            return False
        return True

    done = commit_judged(
        table, TOPIC_ID, lambda: judged.append(table.version), put, put
    )
    assert judged == [0, 1, 2]
    assert done.version == 3


def test_it_gives_up_on_a_table_that_never_rests(writer):
    table = load(writer.path)

    def put(version):
        writer.add(0, version * 10, version * 10 + 10)
        return False

    with pytest.raises(CommitRefused, match="faster all the time"):
        commit_judged(table, TOPIC_ID, lambda: None, put, put)
    assert load(writer.path).version == COMMIT_ATTEMPTS


def test_a_refusal_is_the_answer_when_the_log_stands_still(writer):
    def put(version):
        raise CommitRefused("no")

    with pytest.raises(CommitRefused, match="no"):
        commit_judged(load(writer.path), TOPIC_ID, lambda: None, put, put)


def test_the_table_of_another_topic_is_refused(writer):
    with pytest.raises(CommitRefused, match="belongs to topic id"):
        current(writer.path, "f" * 32, None)
    assert current(writer.path, TOPIC_ID, None).version == 0
