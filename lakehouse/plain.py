"""Arrow columns as numpy arrays, without Arrow's own way there.

The problem: ``to_numpy`` and ``pa.array`` look whether pandas is installed, and load it
if so: 50 MB and half a second, for nothing. The idea: the buffers of a column of
numbers are what numpy wants. The price: only for columns of numbers without nulls.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def numbers(column: Any, dtype: Any = np.int64) -> npt.NDArray[Any]:
    """The values of a ``pa.Array`` or ``pa.ChunkedArray`` as ``dtype``.

    Raises ValueError at a null (an owner may have written one), or if the column's
    numbers are not as wide as those of ``dtype``.
    """
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            parts = [numbers(chunk, dtype) for chunk in column.chunks]
            return np.concatenate([np.empty(0, dtype), *parts])
        column = column.chunk(0)
    if column.null_count:
        raise ValueError("a row lacks a number that every row must have")
    if column.type.bit_width != np.dtype(dtype).itemsize * 8:
        raise ValueError(f"a column of {column.type} where {np.dtype(dtype)} is due")
    data = column.buffers()[1]
    if data is None or len(column) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype)[column.offset :][: len(column)]


def absent(column: Any) -> npt.NDArray[np.bool_]:
    """Which values of an ``pa.Array`` are null."""
    validity = column.buffers()[0]
    if validity is None or column.null_count == 0:
        return np.zeros(len(column), bool)
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    missing: npt.NDArray[np.bool_] = bits[column.offset :][: len(column)] == 0
    return missing


def column_of(values: npt.NDArray[Any], kind: pa.DataType) -> Any:
    """A ``pa.Array`` of ``kind``: numbers of as many bytes as those of ``values``."""
    return pa.Array.from_buffers(kind, len(values), [None, buffer_of(values)])


def buffer_of(values: npt.NDArray[Any]) -> pa.Buffer:
    """Arrow's view of an array's memory; of a copy if it is not contiguous."""
    return pa.py_buffer(np.ascontiguousarray(values).data)
