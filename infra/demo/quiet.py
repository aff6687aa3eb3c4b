"""What Spark's JVM says while it starts goes to a file.

Ivy and Spark greet on both outputs before any setting of theirs is read, and a JVM
keeps the outputs that it was born with.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def output_into(log: Path) -> Iterator[None]:
    """Both outputs of this process, and of what it starts meanwhile, into a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    own = {number: os.dup(number) for number in (1, 2)}
    with log.open("ab") as file:
        for number in own:
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, kept in own.items():
            os.dup2(kept, number)
            os.close(kept)
