"""Offset -> cluster of files, against looking at every file."""

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.actions import UNKNOWN_MAX, UNKNOWN_MIN, Commit, DataFile
from lakehouse.delta_log import Snapshot
from lakehouse.index import OffsetIndex, PartitionFiles


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
    grown, built = PartitionFiles(old).with_added(new), PartitionFiles([*old, *new])
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


def test_files_below_an_offset() -> None:
    files = PartitionFiles([file(0, 9), file(5, 19), file(10, 14)])
    assert [f.path for f in files.below(15)] == ["0-9", "10-14"]


def test_the_index_follows_commits() -> None:
    snapshot = Snapshot("t")
    commits = [
        Commit(0, adds=[file(0, 9)]),
        Commit(1, adds=[file(10, 19), file(0, 4, partition=1)]),
        Commit(2, adds=[file(0, 19, "merged")], removes={"0-9": 1, "10-19": 1}),
        Commit(3, adds=[file(0, 19, "merged")._replace(size=11)]),
    ]
    index = OffsetIndex.of(snapshot)
    for commit in commits:
        snapshot.apply(commit)
        index = index.advanced(snapshot, [commit])
        whole = OffsetIndex.of(snapshot)
        for partition in (0, 1):
            assert index.files_of(partition).files == whole.files_of(partition).files
    assert index.version == 3
    assert index.files_of(0).size_bytes == 11
    assert index.files_of(7).first_offset is None
