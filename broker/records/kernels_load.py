"""A byte by its address, inside a compiled loop.

The problem: an array that one compiled function hands to another is counted, up and
down, with locked instructions, and walking a record takes a dozen such calls: 57 of 67
ns were counting. The idea: a loop takes the address of its array's memory once and
hands on a number; this intrinsic is the one instruction that loads from it.

The price: nothing is checked. Whoever calls it has proved that the byte lies inside the
array, and holds the array.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def byte_at(_context, address, at):  # type: ignore[no-untyped-def]
    """The byte at ``address + at``, an int64. ``address``: ``array.ctypes.data``."""
    if not isinstance(address, types.Integer):
        return None  # an array itself is no number: it does not compile

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        start = builder.inttoptr(arguments[0], cgutils.voidptr_t)
        place = builder.gep(start, [arguments[1]])
        return builder.zext(builder.load(place), context.get_value_type(types.int64))

    return types.int64(types.uint64, types.int64), generate
