"""The face of the tables, which the runtime drives but does not build.

``broker.lake.lake.Lake`` has it; tests and the simulation hand in tables that are lists
in memory. What is named here is all that is asked of either.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from broker.ids import PartitionNumber, TopicNumber
from broker.lake.cold import ColdRead, Searched
from broker.topics.topic import Topic
from lakehouse.log.actions import DataFile


class Tables(Protocol):
    """All topics' tables: their rows, their life, what maintenance asks of them."""

    def table_end(self, number: TopicNumber, partition: PartitionNumber) -> int:
        """First offset that is not in the table; 0 if there is no table."""

    def table_bytes(self, number: TopicNumber, partition: PartitionNumber, /) -> int:
        """Bytes of the partition's files in the table."""

    def why_missing(self, number: TopicNumber, partition: PartitionNumber, /) -> str:
        """One sentence: why the table does not have what it should."""

    async def read(
        self,
        number: TopicNumber,
        partition: PartitionNumber,
        offset: int,
        bytes_max: int,
    ) -> ColdRead: ...

    async def find_timestamp(
        self,
        number: TopicNumber,
        partition: PartitionNumber,
        timestamp_ms: int,
        start_offset: int,
        /,
    ) -> Searched:
        """First (offset, timestamp) from ``start_offset`` on, stamped so or later."""

    async def max_timestamp(
        self, number: TopicNumber, partition: PartitionNumber, start_offset: int, /
    ) -> Searched:
        """First (offset, timestamp) with the greatest timestamp from there on."""

    def start(self, topics: Iterable[Topic]) -> None:
        """Find the tables of these topics and begin to follow them. Blocks."""

    def close(self) -> None: ...

    def topic_created(self, topic: Topic) -> None: ...

    def topic_changed(self, topic: Topic) -> None: ...

    def topic_deleted(self, topic: Topic) -> None: ...

    def files(
        self, number: TopicNumber, partition: PartitionNumber, /
    ) -> Sequence[DataFile]:
        """The partition's data files, by first offset; not to be changed."""

    def take_changed(self) -> list[TopicNumber]:
        """The topics whose owners may have changed rows since the last call."""

    def problems(self) -> list[str]:
        """One sentence for each table whose rows cannot be served."""

    def unreadable(self, number: TopicNumber, /) -> str | None:
        """One sentence if a topic's rows cannot be served, else None."""

    def unreadable_topics(self) -> Mapping[TopicNumber, str]:
        """Topic number -> one sentence, for each whose rows cannot be served."""

    def unserved_topics(self) -> Mapping[TopicNumber, str]:
        """The same, and those of whose rows some could not be."""

    def verified_ends(self, number: TopicNumber, /) -> Mapping[int, int]:
        """Partition -> end below which all is in the table for sure, but for what is
        `lacking`. Blocks."""

    def lacking(
        self, number: TopicNumber, /
    ) -> Mapping[int, Sequence[tuple[int, int]]]:
        """Partition -> ranges of offsets whose files are gone."""

    def unverified(self) -> Iterable[TopicNumber]:
        """Numbers of the topics whose tables had a problem when they were verified."""
