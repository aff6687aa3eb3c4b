"""What is cleaned, and when; and that after any story each key has its last row."""

import random
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.cleaning.plan import SINCE_PARTS, Clean, Rules, find, head_of, since
from jobs.merging.names import Mark, merged_name
from lakehouse.index import PartitionFiles
from lakehouse.log.actions import DataFile, Vector
from tests.support.data_files import data_file

MIB = 1 << 20
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


def rules(**more: object) -> Rules:
    plain = Rules(NOW_MS, 1 << 60, 0.5, 0, 1 << 62, DAY_MS, 128 * MIB)
    return plain._replace(**more)  # type: ignore[arg-type]


def dirty(first: int, end: int, size: int = MIB, at_ms: int = NOW_MS) -> DataFile:
    file = data_file(first, end, size=size)
    return file._replace(timestamp_min_ms=at_ms, timestamp_max_ms=at_ms)


def clean(
    first: int, end: int, seen: int, since_ms: int = 0, size: int = MIB
) -> DataFile:
    file = dirty(first, end, size)
    return file._replace(path=merged_name([file], "a-b-c", Mark(seen, since_ms)))


def found(files: Iterable[DataFile], **more: object) -> Clean | None:
    return find(PartitionFiles(files), rules(**more))


def spans(clean: Clean | None) -> list[tuple[int, int, bool]]:
    assert clean is not None
    return [
        (g.files[0].first_offset, g.files[-1].last_offset + 1, g.is_dirty)
        for g in clean.groups
    ]


@pytest.mark.parametrize(
    ("share", "ratio", "is_due"),
    [(MIB, 0.5, False), (MIB + 1, 0.5, True), (1, 0.0, True), (9 * MIB, 1.0, False)],
)
def test_it_is_due_above_the_ratio_as_in_kafka(
    share: int, ratio: float, is_due: bool
) -> None:
    files = [clean(0, 10, 10), dirty(10, 20, share)]
    assert (found(files, dirty_ratio_min=ratio) is not None) == is_due


def test_nothing_is_due_where_nothing_is_dirty() -> None:
    assert found([], dirty_ratio_min=0.0) is None
    assert found([clean(0, 10, 10)], dirty_ratio_min=0.0, lag_ms_max=0) is None


def test_what_waits_too_long_is_due_whatever_the_ratio() -> None:
    files = [clean(0, 10, 10), dirty(10, 20, 1, NOW_MS - 5_001)]
    assert found(files, lag_ms_max=5_001) is None
    assert found(files, lag_ms_max=5_000) is not None
    untimed = [clean(0, 10, 10), dirty(10, 20, 1, -1)]
    assert found(untimed, lag_ms_max=5_000) is None


def test_what_is_young_ends_the_range() -> None:
    files = [
        dirty(0, 10, at_ms=NOW_MS - 60_000),
        dirty(10, 20, at_ms=NOW_MS - 9),
        dirty(20, 30, at_ms=NOW_MS - 60_000),
    ]
    asked = found(files, lag_ms_min=10)
    assert asked is not None
    assert (spans(asked), asked.end) == ([(0, 10, True)], 10)
    assert found(files[1:], lag_ms_min=10) is None
    assert spans(found(files, lag_ms_min=9)) == [(0, 30, True)]
    young = clean(0, 10, 10)
    assert spans(found([young, dirty(10, 30, 2 * MIB, 0)], lag_ms_min=9)) == [
        (0, 10, False), (10, 30, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [
        dirty(10, 20)._replace(vector=Vector("i", "", None, 1, 1)),
        dirty(10, 20)._replace(rows=-1),
        dirty(10, 20)._replace(rows=0),
        dirty(10, 20)._replace(path="not ours"),
    ],
)
def test_nothing_is_cleaned_from_what_is_odd_on(odd: DataFile) -> None:
    asked = found(
        [dirty(0, 10), odd, dirty(20, 30)], barred=lambda file: file.path == "not ours"
    )
    assert spans(asked) == [(0, 10, True)]
    assert found([dirty(0, 10), dirty(10, 20)], end=20, barred=bool) is None
    assert spans(found([dirty(0, 10), dirty(10, 20)], end=19)) == [(0, 10, True)]


def test_the_head_is_what_saw_all_of_the_head() -> None:
    def head(*files: DataFile) -> int:
        return head_of(list(PartitionFiles(files).clusters(0)))

    assert head() == head(dirty(0, 10)) == 0
    assert head(clean(0, 10, 20), clean(10, 20, 20)) == 2
    assert head(clean(0, 10, 20), clean(10, 20, 20), dirty(20, 30)) == 2
    assert head(clean(0, 10, 20), dirty(10, 20), clean(20, 30, 30)) == 1
    assert head(clean(0, 10, 10), clean(10, 20, 20)) == 1, "the first saw itself alone"
    assert head(clean(0, 30, 30), dirty(5, 10)) == 0, "its owner put rows among them"


def test_groups_are_of_one_kind_and_of_a_size() -> None:
    step = DAY_MS // SINCE_PARTS
    files = [
        clean(0, 10, 60),
        clean(10, 20, 60, NOW_MS - DAY_MS),
        clean(20, 30, 60, NOW_MS - step),
        clean(30, 40, 60, NOW_MS - step),
        clean(40, 60, 60, NOW_MS),
        dirty(60, 70, 90 * MIB),
        dirty(70, 80, 30 * MIB),
        dirty(80, 90, 30 * MIB),
    ]
    asked = found(files)
    assert spans(asked) == [
        (0, 20, False), (20, 40, False), (40, 60, False),
        (60, 80, True), (80, 90, True),
    ]  # fmt: skip
    assert asked is not None
    ages = [(group.since_ms, group.is_expired) for group in asked.groups]
    assert ages[:3] == [(0, True), (NOW_MS - step, False), (NOW_MS, False)]
    assert ages[3] == ages[4] == (since(rules()), False)
    assert (asked.first_offset, asked.end, asked.bytes) == (0, 90, 155 * MIB)


def test_files_are_not_joined_over_more_time_than_retention_likes() -> None:
    files = [dirty(n * 10, n * 10 + 10, at_ms=NOW_MS + n * 100) for n in range(4)]
    asked = found(files, span_ms_max=100)
    assert spans(asked) == [(0, 20, True), (20, 40, True)]


@pytest.mark.parametrize("retention_ms", [0, 1, 7, DAY_MS, 1 << 62])
def test_a_tombstone_is_never_said_to_be_there_before_it_was(retention_ms: int) -> None:
    asked = rules(delete_retention_ms=retention_ms)
    assert since(asked) >= NOW_MS
    assert since(asked) - NOW_MS <= max(1, retention_ms // SINCE_PARTS)


class Row(NamedTuple):
    offset: int
    key: int
    is_tombstone: bool


class Story:
    """A partition whose files' rows are known, cleaned as the planner says."""

    def __init__(self, seed: int) -> None:
        self.random, self.rows = random.Random(seed), dict[str, list[Row]]()
        self.files, self.end, self.now_ms = list[DataFile](), 0, NOW_MS
        self.produced: dict[int, Row] = {}
        self.met: dict[int, int] = {}

    def append(self) -> None:
        chance = self.random
        found = [
            Row(self.end + n, chance.randrange(9), chance.random() < 0.3)
            for n in range(chance.randint(1, 8))
        ]
        self.end += len(found)
        self.produced |= {row.key: row for row in found}
        file = dirty(found[0].offset, self.end, 100 * len(found))
        self.files.append(file._replace(rows=len(found)))
        self.rows[self.files[-1].path] = found

    def rewrite(self) -> None:
        """Its owner's: the same rows, in a file that says nothing."""
        if self.files:
            at = self.random.randrange(len(self.files))
            file = self.files[at]._replace(path=f"theirs-{self.random.random()}")
            self.rows[file.path] = self.rows[self.files[at].path]
            self.files[at] = file

    def merge(self) -> None:
        """Of two neighbours one."""
        if len(self.files) > 1:
            at = self.random.randrange(len(self.files) - 1)
            pair = self.files[at : at + 2]
            self.files[at : at + 2] = [self._file(pair, merged_name(pair, "a-b-d"))]

    def clean(self) -> None:
        asked = found(
            self.files, now_ms=self.now_ms,
            dirty_ratio_min=self.random.choice([0, 0.5]),
            target_bytes=1_000,
        )  # fmt: skip
        if asked is None:
            return
        rows = [row for file in asked.files for row in self.rows[file.path]]
        of_dirty = {f.path for g in asked.groups if g.is_dirty for f in g.files}
        last = {r.key: r.offset for p in of_dirty for r in self.rows[p]}
        last = {k: max(r.offset for r in rows if r.key == k) for k in last}
        after = [f for f in self.files if f not in asked.files]
        for row in rows:
            if row.is_tombstone:
                self.met.setdefault(row.offset, self.now_ms)
        before: list[DataFile] = []
        made = []
        for group in asked.groups:
            stays = [
                row
                for file in group.files
                for row in self.rows[file.path]
                if row.offset == asked.end - 1
                or (
                    last.get(row.key, -1) <= row.offset
                    and not (row.is_tombstone and group.is_expired)
                )
            ]
            for file in group.files:
                for row in self.rows[file.path]:
                    if row.is_tombstone and row not in stays:
                        self.leave(row)
            sources = [*before, *group.files]
            before = [] if stays else sources
            if stays:
                ms = group.since_ms if any(r.is_tombstone for r in stays) else 0
                name = merged_name(sources, f"{self.now_ms:x}-b-c", Mark(asked.end, ms))
                made.append(self._file(sources, name, stays))
        assert not before
        self.files = [*made, *after]
        self.check(asked.end)

    def leave(self, row: Row) -> None:
        is_last = self.produced[row.key] == row
        assert not is_last or self.now_ms >= self.met[row.offset] + DAY_MS

    def check(self, end: int) -> None:
        below = [
            row for f in self.files for row in self.rows[f.path] if row.offset < end
        ]
        keys = [row.key for row in below]
        assert len(keys) == len(set(keys))
        kept = {row for file in self.files for row in self.rows[file.path]}
        for row in self.produced.values():
            assert row in kept or row.is_tombstone

    def _file(
        self, sources: list[DataFile], path: str, rows: list[Row] | None = None
    ) -> DataFile:
        if rows is None:
            rows = [row for file in sources for row in self.rows[file.path]]
        self.rows[path] = rows
        return sources[0]._replace(
            path=path, size=100 * len(rows), rows=len(rows),
            first_offset=rows[0].offset, last_offset=rows[-1].offset,
        )  # fmt: skip


@given(st.integers(0, 1 << 32))
def test_each_key_has_one_row_after_each_clean(seed: int) -> None:
    story = Story(seed)
    acts = [story.append, story.append, story.clean, story.merge, story.rewrite]
    for _ in range(40):
        story.random.choice(acts)()
        story.now_ms += story.random.choice([1, DAY_MS // 20, DAY_MS // 2])
