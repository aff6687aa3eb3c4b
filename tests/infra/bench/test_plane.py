"""The bench of the plane: its sums, and all of it in small."""

import shutil

import pytest

from infra.bench import plane
from infra.bench.plane import Run, compared


def test_ratios_are_of_pairs_and_their_median_counts() -> None:
    alone = Run(100.0, 1.0, 2.0, 0.0, 0)
    pairs = [
        (alone, Run(90.0, 2.0, 3.0, 0.2, 100)),
        (alone._replace(mb_s=50.0), Run(50.0, 2.0, 2.0, 0.1, 50)),
        (alone, Run(10.0, 2.0, 8.0, 0.8, 100)),
    ]
    assert compared(pairs) == {
        "MB/s alone": 100.0,
        "MB/s with reads": 50.0,
        "of it alone": 0.9,
        "broker cpu of it alone": 1.5,
        "reads/s": 50.0,
        "plane cpu ms a read": pytest.approx(2.0),
    }


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_all_of_it_has_figures(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(plane, "AT_ONCE", 20)
    found = plane.measure(tmp_path, pairs=1, records=20_000, topics=50)
    whole = {"MB/s with reads", "of it alone", "broker cpu of it alone", "reads/s"}
    whole |= {"plane cpu ms a read", "list s", "list cpu s"}
    assert all(found[name] > 0 for name in whole), found
