"""Offset -> cluster of files, against looking at every file."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lakehouse import index as offset_index
from lakehouse.index import OffsetIndex, PartitionFiles
from lakehouse.log.actions import UNKNOWN_MAX, UNKNOWN_MIN, Commit, DataFile
from lakehouse.log.delta_log import Snapshot


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """So that a few files are several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_index, "BLOCK_FILES", 4)
        yield


def file(first: int, last: int, path: str = "", partition: int = 0) -> DataFile:
    name = path or f"{first}-{last}"
    return DataFile(name, partition, 10, 1, first, last, 0, 0, 0, False)


spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda p: (p[0], sum(p))),
    max_size=12,
)


def naive_clusters(files: list[DataFile]) -> list[set[str]]:
    """Connected components of overlapping files, in order."""
    clusters: list[tuple[int, set[str]]] = []
    for one in sorted(files, key=lambda f: f.first_offset):
        if clusters and one.first_offset <= clusters[-1][0]:
            reach, names = clusters.pop()
            clusters.append((max(reach, one.last_offset), names | {one.path}))
        else:
            clusters.append((one.last_offset, {one.path}))
    return [names for _, names in clusters]


@given(spans, st.integers(0, 80))
def test_the_first_cluster_that_may_hold_an_offset(
    pairs: list[tuple[int, int]], offset: int
) -> None:
    files = [file(a, b, f"{n}") for n, (a, b) in enumerate(pairs)]
    by_name = {f.path: f for f in files}
    wanted = next(
        (
            names
            for names in naive_clusters(files)
            if max(by_name[n].last_offset for n in names) >= offset
        ),
        None,
    )
    found = PartitionFiles(files).cluster(offset)
    assert (None if found is None else {f.path for f in found}) == wanted


@given(spans, spans)
def test_adding_is_building_anew(
    before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    old = [file(a, b, f"o{n}") for n, (a, b) in enumerate(before)]
    new = [file(a, b, f"n{n}") for n, (a, b) in enumerate(after)]
    grown, built = PartitionFiles(old).changed((), new), PartitionFiles([*old, *new])
    assert grown.size_bytes == built.size_bytes
    assert grown.first_offset == built.first_offset
    for offset in range(80):
        one, other = grown.cluster(offset), built.cluster(offset)
        assert set(one or ()) == set(other or ())


def test_all_clusters_in_order() -> None:
    files = PartitionFiles([file(0, 9), file(10, 30), file(20, 25), file(40, 49)])
    found = [[f.first_offset for f in cluster] for cluster in files.clusters(5)]
    assert found == [[0], [10, 20], [40]]


def test_a_file_without_statistics_may_hold_anything() -> None:
    files = PartitionFiles([file(0, 9), file(UNKNOWN_MIN, UNKNOWN_MAX), file(20, 29)])
    assert files.first_offset == 0
    assert len(list(files.clusters(1000))) == 1


def test_the_index_follows_commits() -> None:
    snapshot = Snapshot("t")
    commits = [
        Commit(0, adds=[file(0, 9)]),
        Commit(1, adds=[file(10, 19), file(0, 4, partition=1)]),
        Commit(2, adds=[file(0, 19, "merged")], removes={"0-9": 1, "10-19": 1}),
        Commit(3, adds=[file(0, 19, "merged")._replace(size=11)]),
    ]
    index = snapshot.index
    for commit in commits:
        snapshot.apply(commit)
        index, whole = snapshot.index, OffsetIndex.of(snapshot)
        for partition in (0, 1):
            assert index.files_of(partition).files == whole.files_of(partition).files
    assert index.version == 3
    assert index.files_of(0).size_bytes == 11
    assert index.files_of(7).first_offset is None


SpanLists = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 12)), max_size=14)


class FilesThatChange(RuleBasedStateMachine):
    """Files that come and go, beside a plain list of them."""

    def __init__(self) -> None:
        super().__init__()
        self.files = PartitionFiles()
        self.naive: list[DataFile] = []
        self.published: list[tuple[PartitionFiles, list[DataFile]]] = []
        self.made = 0

    @rule(pairs=SpanLists)
    def some_come_anywhere(self, pairs: list[tuple[int, int]]) -> None:
        self._change([], [self._file(a, a + length) for a, length in pairs])

    @rule(lengths=st.lists(st.integers(0, 9), max_size=14))
    def some_come_behind_all_others(self, lengths: list[int]) -> None:
        come, end = [], max([0, *(f.last_offset + 1 for f in self.naive)])
        for length in lengths:
            come.append(self._file(end, end + length))
            end += length + 1
        self._change([], come)

    @precondition(lambda self: self.naive)
    @rule(data=st.data())
    def some_become_one(self, data: st.DataObject) -> None:
        ordered = self.files.files
        start = data.draw(st.integers(0, len(ordered) - 1))
        gone = ordered[start : start + data.draw(st.integers(1, 20))]
        reach = max(one.last_offset for one in gone)
        self._change(gone, [self._file(gone[0].first_offset, reach)])

    @precondition(lambda self: self.naive)
    @rule(data=st.data())
    def some_go(self, data: st.DataObject) -> None:
        which = st.sets(st.integers(0, len(self.naive) - 1), max_size=20)
        self._change([self.naive[n] for n in data.draw(which)], [])

    @rule()
    def one_comes_that_may_hold_anything(self) -> None:
        self._change([], [self._file(UNKNOWN_MIN, UNKNOWN_MAX)])

    def _file(self, first: int, last: int) -> DataFile:
        self.made += 1
        return file(first, last, f"{self.made:06d}")

    def _change(self, gone: list[DataFile], come: list[DataFile]) -> None:
        self.published = [*self.published[-3:], (self.files, self.files.files)]
        self.files = self.files.changed(gone, come)
        self.naive = [one for one in self.naive if one not in gone] + come

    @invariant()
    def it_is_the_plain_list(self) -> None:
        assert self.files.files == sorted(
            self.naive, key=lambda f: (f.first_offset, f.last_offset, f.path)
        )
        assert len(self.files) == len(self.naive)
        assert self.files.size_bytes == sum(one.size for one in self.naive)
        reach = max((one.last_offset for one in self.naive), default=-1)
        assert self.files.last_offset == reach

    @invariant()
    def clusters_are_those_of_the_plain_list(self) -> None:
        wanted = naive_clusters(self.naive)
        reach = {one.path: one.last_offset for one in self.naive}
        for offset in (0, 7, 50, 120, 199, 230, 1000):
            found = [{f.path for f in c} for c in self.files.clusters(offset)]
            assert found == [c for c in wanted if max(map(reach.get, c)) >= offset]

    @invariant()
    def what_begins_later_is_cut_off(self) -> None:
        for end in (0, 60, 199, 1000):
            cut = self.files.before(end)
            kept = [f for f in self.files.files if f.first_offset < end]
            assert (cut.files, len(cut)) == (kept, len(kept))
            assert cut.size_bytes == sum(one.size for one in kept)
            assert cut.cluster(0) == PartitionFiles(kept).cluster(0)

    @invariant()
    def who_reads_an_earlier_version_sees_it_unchanged(self) -> None:
        for files, as_it_was in self.published:
            assert files.files == as_it_was

    @invariant()
    def blocks_are_few(self) -> None:
        blocks = len(self.files._blocks)
        assert blocks <= 2 + len(self.naive)
        assert all(block.files for block in self.files._blocks)


TestFilesThatChange = FilesThatChange.TestCase
TestFilesThatChange.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None
)


class Counted(DataFile):
    """Counts how often its offsets are looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> object:
        if name in ("first_offset", "last_offset", "path", "size"):
            Counted.looks += 1
        return super().__getattribute__(name)


def test_no_operation_looks_at_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_index, "BLOCK_FILES", 256)
    many = [Counted(*file(n * 10, n * 10 + 9)) for n in range(100_000)]
    files = PartitionFiles(many)

    def looks_of(operation: object) -> int:
        Counted.looks = 0
        assert callable(operation)
        operation()
        return Counted.looks

    new, merged = file(1_000_000, 1_000_009), file(5_000, 5_099, "merged")
    assert looks_of(lambda: files.changed((), [new])) < 100
    assert looks_of(lambda: files.changed(many[500:510], [merged])) < 12_000
    assert looks_of(lambda: files.before(999_985)) < 1_000
    assert looks_of(lambda: files.cluster(500_000)) < 50
    assert looks_of(lambda: (files.first_offset, files.last_offset, len(files))) == 0
