"""BOOTSTRAP FROM TO CHECKPOINT JARS: Spark copies what is new in a topic to another."""

import sys

from pyspark.sql import SparkSession

bootstrap, origin, target, checkpoint, jars = sys.argv[1:]
session = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.extraClassPath", jars)
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
names = {"kafka.bootstrap.servers": bootstrap, "includeHeaders": "true"}
found = (
    session.readStream.format("kafka")
    .options(**names, subscribe=origin, startingOffsets="earliest")
    .load()
)
(
    found.select("key", "value", "headers", "partition")
    .writeStream.format("kafka")
    .options(**names, topic=target, checkpointLocation=checkpoint)
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
# a batch reads the same
batch = session.read.format("kafka").options(**names, subscribe=target).load()
print("rows", batch.count())
session.stop()
