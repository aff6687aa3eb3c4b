"""What carries bytes: anything contiguous that `writelines` and `struct` take.

Record batches travel through the broker as whatever holds them (a receive buffer, a
mapped segment, a file that was read), so that nobody copies them on the way.
"""

from collections.abc import Sequence
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

# What an answer may send as one `records` field: one buffer, or several in a row.
Records: TypeAlias = Buffer | Sequence[Buffer] | None
