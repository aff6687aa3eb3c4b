"""Running tasks so that one that kills its worker costs nobody else their round.

The problem: a slice whose records take more memory than there is, or that a library
crashes on, ends its worker. Spark tries the task again, the next worker ends too, and
the job fails as a whole: for every topic, at each round, for ever. The idea: when a job
fails, its tasks are run again in halves, down to the slice that fails alone; that one
is reported as failed, and all others have their result. None is blamed before an empty
job has run after it: if not even that runs, it is Spark that is gone (its JVM was
killed, or ran out of memory), and the error is raised as it came.

The price: a killer costs two jobs for each halving, and one more. It is then left alone
for a minute.
"""

from collections.abc import Callable
from typing import Final

import structlog

from jobs.rows import Failed, FileTask, Written

log = structlog.get_logger("lakelog.compactor")

Spread = Callable[[list[list[FileTask]]], list[list[Written | Failed]]]
"""Runs tasks somewhere, in any order; results in the order of the tasks."""


def spread_isolated(
    spread: Spread, tasks: list[list[FileTask]]
) -> list[list[Written | Failed]]:
    """The results of ``spread``, with `Failed` for each file that fails its job alone.

    Raises what ``spread`` raises when it cannot even run an empty task.
    """
    try:
        return spread(tasks)
    except Exception as error:  # noqa: BLE001  (Spark has many ways to say it)
        spread(_EMPTY)
        log.warning("a job failed; its parts are tried alone", why=first_line(error))
        found = _halved(spread, [file for task in tasks for file in task], error)
    return [[found[file.path, file.root] for file in task] for task in tasks]


_EMPTY: Final[list[list[FileTask]]] = [[]]

Found = dict[tuple[str, str], Written | Failed]


def _halved(spread: Spread, files: list[FileTask], error: Exception) -> Found:
    """Results by path of ``files``, which failed together with ``error``.

    Raises what ``spread`` raises when it cannot even run an empty task.
    """
    if len(files) == 1:
        spread(_EMPTY)
        why = f"its records cannot be written by a worker: {first_line(error)}"
        [file] = files
        return {(file.path, file.root): Failed(file.path, why, stale=False)}
    found: Found = {}
    middle = len(files) // 2
    for half in (files[:middle], files[middle:]):
        found |= _alone(spread, half)
    return found


def _alone(spread: Spread, files: list[FileTask]) -> Found:
    try:
        [results] = spread([files])
    except Exception as error:  # noqa: BLE001  (as above)
        return _halved(spread, files, error)
    return {
        (file.path, file.root): result
        for file, result in zip(files, results, strict=True)
    }


def first_line(error: BaseException) -> str:
    """The error's type and the first line of what it says.

    An error of Spark's asks the JVM for its words, which may be gone.
    """
    try:
        said = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001  (as above)
        said = []
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
