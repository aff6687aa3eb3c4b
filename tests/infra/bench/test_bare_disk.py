"""The disk's own figures, which stand beside those that have a sync in them."""

import os

import pytest

from infra.bench import __main__ as bench
from infra.bench import bare_disk
from infra.bench.measures import Bench, Sizes
from infra.bench.table import shown


@pytest.mark.parametrize(
    ("records", "writes", "size"), [(200, 20, 1000), (60_000, 100, 60_000)]
)
def test_what_is_due_in_a_tick_is_written_and_synced_at_once(
    tmp_path, monkeypatch, records, writes, size
):
    written, synced = [], []
    pwrite, fdatasync = os.pwrite, os.fdatasync

    def watched_write(file, data, at):
        written.append(len(data))
        return pwrite(file, data, at)

    def watched_sync(file):
        synced.append(len(written))
        fdatasync(file)

    monkeypatch.setattr(os, "pwrite", watched_write)
    monkeypatch.setattr(os, "fdatasync", watched_sync)
    found = bare_disk.paced_figures(tmp_path, records, 0.1)
    assert written[1:] == [size] * writes  # the first fills the file
    assert synced == list(range(2, writes + 2))
    assert 0 < found["p50"] <= found["p99"]
    assert not list(tmp_path.iterdir())


def test_each_pace_is_that_of_a_test_whose_figures_it_has(tmp_path):
    tests = Bench(tmp_path, tmp_path, Sizes()).tests()
    for name in bench.PACES:
        assert name in tests
        assert {one.figure for one in shown(name)} == {"p50", "p99"}
