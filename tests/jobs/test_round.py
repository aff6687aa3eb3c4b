"""What a round commits: per partition, all before the first slice that failed."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import deltalake
import pytest

from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs import round as module
from jobs.planner import Item
from jobs.round import whole_prefixes
from jobs.rows import Failed, Written
from lakehouse.log.delta_log import load
from tests.jobs.world import World
from tests.support.batches import Record
from tests.support.cloned_back import clone_back


def item(partition: int, start: int) -> Item:
    return Item((1, partition), start, start + 10, (), 1)


def written(one: Item) -> Written:
    return Written(f"{one.start}", 10, 1, one.start, one.end - 1, 0, 0, 0)


def test_only_what_is_whole_from_the_start() -> None:
    items = [item(p, start) for p in (0, 1, 2) for start in (20, 0, 10)]
    bad = {(0, 10): True, (1, 0): False}
    done = [
        (one, Failed("x", "why", bad[one.key[1], one.start]))
        if (one.key[1], one.start) in bad
        else (one, written(one))
        for one in items
    ]
    failed: dict[tuple[int, int], Failed] = {}
    whole = whole_prefixes(done, failed)
    assert [(i.key[1], i.start) for i, _ in whole] == [(0, 0), (2, 0), (2, 10), (2, 20)]
    assert {key[1]: failure.stale for key, failure in failed.items()} == {
        0: True,
        1: False,
    }


def test_what_fails_behind_others_of_its_partition_is_told_so() -> None:
    items = [item(0, 0), item(0, 10), item(0, 20), item(1, 0)]
    done = [
        (one, written(one) if at == 0 else Failed("x", f"{at}", stale=False))
        for at, one in enumerate(items)
    ]
    failed: dict[tuple[int, int], Failed] = {}
    whole_prefixes(done, failed)
    said = {key[1]: (one.why, one.is_behind) for key, one in failed.items()}
    assert said == {0: ("1", True), 1: ("3", False)}


def test_what_a_round_did_is_counted(world: World) -> None:
    topic, compactor = world.topic("t", 2), world.compactor()
    world.produce(topic, [Record(b"k", b"v")], 0)
    world.produce(topic, [Record(b"k", b"v")] * 5, 1)
    store = LocalSegmentStore(PosixFiles(), world.data_dir / "wal")
    (info,) = store.live()
    lengths = [int(some.length.sum()) for some in store.columns(info.sequence).values()]
    world.flush(compactor)
    counted = compactor.counters
    done = (counted.rounds, counted.commits, counted.files, counted.rows)
    assert done == (1, 1, 2, 6)
    assert counted.log_bytes == sum(lengths)
    files = world.path(topic).glob("partition=*/*.parquet")
    assert counted.file_bytes == sum(path.stat().st_size for path in files)


def test_the_time_of_each_phase_is_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, compactor = world.topic("t"), world.compactor()

    def slowed(do: Callable[..., Any], by_s: float) -> Callable[..., Any]:
        def done(*more: Any, **named: Any) -> Any:
            time.sleep(by_s)
            return do(*more, **named)

        return done

    compactor._spread = slowed(compactor._spread, 0.05)
    monkeypatch.setattr(module, "commit_files", slowed(module.commit_files, 0.02))
    world.produce(topic, [Record(b"k", b"v")])
    world.flush(compactor)
    counted = compactor.counters
    assert counted.rounds_write_ms >= 50
    assert counted.rounds_commit_ms >= 20


def test_what_failed_is_not_deleted_if_it_left_its_table_since(world: World) -> None:
    """It was committed all the same, and is of older versions for a time."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    root = world.path(topic)
    [path] = load(str(root)).files
    deltalake.DeltaTable(root).delete()
    assert not load(str(root)).files
    module.delete_unnamed(str(root), {path})
    assert (root / path).exists()


@pytest.mark.parametrize("is_forgotten", [True, False])
def test_what_failed_is_not_deleted_once_its_table_names_it(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_forgotten: bool
) -> None:
    """Its owner may have put a clone back, which names files by where they lie; that
    they had left by other names the log tells for a time only."""
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v")] * 10)
    world.flush(compactor)
    root = world.path(topic)
    [path] = load(str(root)).files
    clone_back(str(root))
    (root / f"{path}.other").write_bytes(b"")
    if is_forgotten:
        look = partial(load, keep_removed=False)
        monkeypatch.setattr(module, "load", look)
    module.delete_unnamed(str(root), {path, f"{path}.other"})
    assert os.listdir(root / "partition=0") == [os.path.basename(path)]
