"""Spark's own Kafka source into Delta: what one would run without Lakelog.

``python -m infra.bench.kafka_to_delta JARS BROKER TABLE CHECKPOINT TOPIC...`` follows
the topics into one table until it is terminated, at the pace at which Lakelog's
compactor works by default, and prints ``ready`` when its first batch is through. One
query and one table for all topics is what costs least there.
"""

import sys
import time
from pathlib import Path
from typing import Any

from broker.settings import LakeSettings

TRIGGER = f"{LakeSettings().flush_ms} milliseconds"


def session(jars: Path) -> Any:
    from pyspark.sql import SparkSession

    from jobs.session import session_options

    options = session_options(delta=True)
    options["spark.jars"] = ",".join(map(str, jars.glob("*.jar")))
    builder = SparkSession.builder.master("local[*]").appName("kafka-to-delta")
    for key, value in options.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> None:
    jars, broker, table, checkpoint, *topics = sys.argv[1:]
    spark = session(Path(jars))
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    query = (
        source.writeStream.format("delta")
        .partitionBy("topic", "partition")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=TRIGGER)
        .start(table)
    )
    while not query.recentProgress:
        time.sleep(0.1)
    print("ready", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main()
