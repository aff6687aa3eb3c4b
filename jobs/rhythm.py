"""When each topic was in a round, and so which are due: `flush` with a memory. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from broker.ids import TopicNumber, TopicPartition
from broker.settings import LakeSettings
from broker.topics.configs import LAKE_FLUSH_MAX_MS, value
from broker.topics.topic import Topic
from jobs.flush import FILE_BYTES, Flush, Waiting, overdue_ms
from jobs.planner import Item, Pending, by_topic, due

Topics = Mapping[TopicNumber, Topic]


class Rhythm:
    """What was committed and when; it may be forgotten: files are then made sooner."""

    def __init__(self, lake: LakeSettings) -> None:
        self._lake = lake
        self._defaults = {LAKE_FLUSH_MAX_MS: str(lake.flush_bound_ms)}
        self._rounds_ms: dict[TopicNumber, int] = {}
        """Topic number -> when it was last in a round, if its files were small."""
        self.newest_segment = 0
        """The newest segment of the log, as of the last look."""

    def note(
        self,
        items: Iterable[Item],
        committed: Collection[TopicPartition],
        topics: Topics,
        now_ms: int,
    ) -> None:
        """A round of these items is done, and of these partitions committed.

        A topic whose files were worth it need not rest: so what comes last of a flow
        waits no longer than the rest of it.
        """
        sizes: dict[TopicNumber, list[int]] = {}
        for item in items:
            if item.key in committed:
                sizes.setdefault(item.key[0], []).append(item.bytes)
        for number, files in sizes.items():
            if sum(files) >= FILE_BYTES * len(files):
                self._rounds_ms.pop(number, None)
            else:
                self._rounds_ms[number] = now_ms
        for gone in self._rounds_ms.keys() - topics.keys():
            del self._rounds_ms[gone]

    def by_topic(
        self, pending: Sequence[Pending], now_ms: int
    ) -> dict[TopicNumber, Waiting]:
        """What each topic has, for the two that follow."""
        return by_topic(pending, now_ms, self._rounds_ms, self.newest_segment)

    def due(
        self,
        pending: Sequence[Pending],
        waiting: Mapping[TopicNumber, Waiting],
        topics: Topics,
        asked: frozenset[TopicNumber],
    ) -> list[Pending]:
        """What of ``pending`` is to be compacted now; ``waiting``: its `by_topic`,
        ``asked``: topics that somebody waits for."""
        flushes = {number: self._flush(topics[number]) for number in waiting}
        return due(pending, waiting, flushes.__getitem__, asked)

    def overdue_ms(self, waiting: Mapping[TopicNumber, Waiting], topics: Topics) -> int:
        """For how long something has been due; 0: nothing is."""
        late = (
            overdue_ms(one, self._flush(topics[number]))
            for number, one in waiting.items()
        )
        return max(0, max(late, default=0))

    def _flush(self, topic: Topic) -> Flush:
        max_ms = value(LAKE_FLUSH_MAX_MS, topic.configs, self._defaults)
        assert isinstance(max_ms, int)
        return Flush(self._lake.flush_ms, max_ms, self._lake.flush_bytes)
