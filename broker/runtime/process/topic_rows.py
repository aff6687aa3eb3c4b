"""What is said of topics when the internal endpoint is asked, a row at a time.

Each row costs some microseconds, so whoever asks for all of them takes turns between.
"""

from collections.abc import Iterator

from broker.runtime.partitions.partitions import Partitions
from broker.runtime.process.internal import Row
from broker.runtime.topics.topics import Topics


def traffic(topics: Topics, partitions: Partitions) -> Iterator[Row]:
    """What each topic got and gave since the start, if it did."""
    for found in partitions.traffic():
        topic = topics.by_number(found.number)
        if topic is not None:
            yield {
                "topic": topic.name,
                "records_in": found.records_in,
                "bytes_in": found.bytes_in,
                "bytes_out": found.bytes_out,
            }


def sizes(topics: Topics, partitions: Partitions) -> Iterator[Row]:
    """Bytes of each partition, in segments and in its table together, as
    DescribeLogDirs has them; 0 too, so that a row takes no longer than another."""
    for topic in list(topics.all()):
        for index in range(topic.partitions):
            key = topic.key(index)
            size = partitions.log_bytes(*key) + partitions.table_bytes(*key)
            yield {"topic": topic.name, "partition": index, "bytes": size}
