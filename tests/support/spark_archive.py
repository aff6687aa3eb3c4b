"""Spark's classes as a JVM has them: ``python -m tests.support.spark_archive``.

Each Spark that a test starts lives for a minute. Half of what it costs is the second
compiler, which pays for itself in hours; a third of the rest is to find, to parse and
to verify some ten thousand classes. Java maps them from a file that an earlier JVM left
when it ended. It looks whether its own version and the jars are those of the file, and
does without it if they are not: then, or without a file, all is slower and the same.

A JVM that Spark's launcher starts gets what the variable ``SPARK_SUBMIT_OPTS`` says.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix, "spark.jsa")
ONE_COMPILER = "-XX:TieredStopAtLevel=1"
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Why it does not use the file, it would say on standard output."""
WRITTEN_S = 300.0

PROGRAM = """
from jobs import session
session.JVM_ENDS_S = {patience_s}
spark = session.make_session("local[2]", "archive", delta=True)
spark.sparkContext.parallelize([1, 2], 2).map(lambda number: number).collect()
spark.range(9).write.format("delta").save({table!r})
spark.sql("DELETE FROM delta.`{table}` WHERE id = 3")
assert spark.sql("SELECT count(*) FROM delta.`{table}`").collect()[0][0] == 8
session.end_session(spark)
"""


def for_short_sparks(archive: Path = ARCHIVE) -> str:
    """Options of a JVM that lives for a minute."""
    if not archive.exists():
        return ONE_COMPILER
    return f"{ONE_COMPILER} -XX:SharedArchiveFile={archive} {SILENT}"


def make(archive: Path = ARCHIVE) -> bool:
    """Write the file anew, which takes half a minute; whether that went well."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
        made = Path(directory, archive.name)
        options = f"{ONE_COMPILER} -XX:ArchiveClassesAtExit={made} {SILENT}"
        program = PROGRAM.format(table=f"{directory}/table", patience_s=WRITTEN_S)
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"SPARK_SUBMIT_OPTS": options},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if not made.exists():
            return False
        made.replace(archive)
        return True


if __name__ == "__main__":
    if not make():
        print("no archive of Spark's classes: its sessions will start slower")
