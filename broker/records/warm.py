"""Compile the loops into their cache now: ``python -m broker.records.warm``.

The first import of the kernels takes some seconds of compilation, every later one half
a second. An installer runs this once, so that the first producer does not wait for it.
"""

from broker.records import (
    kernels,
    kernels_check,
    kernels_encode,
    kernels_message_set,
)
from lakehouse.files import page_kernels


def main() -> None:
    """Importing was all there is to do; say what is ready."""
    assert kernels.OK == 0
    assert kernels_check.check_records
    assert kernels_encode.plan
    assert kernels_message_set.TOTALS
    assert page_kernels.ODD


if __name__ == "__main__":
    main()
