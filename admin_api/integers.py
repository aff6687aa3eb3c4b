"""Integers as the OpenAPI document means them: numbers of JSON, or digits in a text.

pydantic takes more for one: true for 1, and texts that Python's `int` does, with blanks
around them, underscores, or digits of other scripts. A record whose `partition_id` was
true went into partition 1. Digits are one in a body, too: Confluent's parser takes
them, and so clients send them.
"""

import re
from typing import Any, Final

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

_DIGITS: Final = re.compile("-?[0-9]+")


def _json_number(value: Any) -> Any:
    if isinstance(value, bool):
        raise _no_integer()
    return _digits(value)


def _digits(value: Any) -> Any:
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise _no_integer()
    return value


def _no_integer() -> PydanticCustomError:
    return PydanticCustomError("int_type", "Input should be a valid integer")


NUMBER: Final = BeforeValidator(_json_number)
"""Of an integer in a body: 3, and 3.0, which is the same number in JSON, and "3".
Stands behind its bounds, which are else not in the document."""
DIGITS: Final = BeforeValidator(_digits)
"""Of an integer in a path or a query; stands there, too."""
