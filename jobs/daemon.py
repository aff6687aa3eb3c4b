"""Spark's Python workers, forked from a process that has everything loaded already.

The problem: Spark starts a Python worker for each task, and a new one spends most of
a second on importing pyarrow, numba and Spark's own worker before it does its
milliseconds of work. The idea: Spark forks its workers from one daemon; this daemon
imports what they need first. Importing must start no thread, since threads do not
survive a fork: the one library that would (OpenBLAS) is told not to.

The price: its memory (shared with the workers) is kept while the compactor lives.

Used by Spark as ``spark.python.daemon.module``.
"""

import gc
import importlib
import os


def main() -> None:
    """Load, then serve Spark's requests for workers until its pipe closes."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    importlib.import_module("pyspark.worker")
    importlib.import_module("jobs.rows").warm()
    # What is loaded stays: no worker shall walk, and so copy, all of it.
    gc.freeze()
    importlib.import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
