"""The figures of a demo."""

from infra.demo.report import freshness, percentile, size_of


def test_freshness_ends_with_the_first_commit_that_holds_the_record():
    acknowledged = {(0, 0): 1.0, (0, 1): 2.0, (1, 0): 2.5}
    commits = [(1.5, {0: 1}), (4.0, {0: 2}), (5.0, {0: 2, 1: 1})]
    assert freshness(acknowledged, commits) == [0.5, 2.0, 2.5]


def test_a_record_that_is_in_the_table_before_its_acknowledgement_was_read_is_fresh():
    assert freshness({(0, 0): 2.0}, [(1.0, {0: 1})]) == [0.0]


def test_percentiles_are_values_that_were_seen():
    values = [4.0, 1.0, 3.0, 2.0]
    assert [percentile(values, share) for share in (0.0, 0.5, 1.0)] == [1.0, 3.0, 4.0]


def test_the_size_of_a_folder_is_that_of_all_its_files(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"123")
    (tmp_path / "y").write_bytes(b"4567")
    assert size_of(tmp_path) == 7
