"""No body holds the admin plane's loop while its values are counted, whatever it says.

What is measured is the processor time of each step, between which others have a turn.
"""

import asyncio
from contextlib import suppress

import pytest
from starlette.exceptions import HTTPException

from admin_api.bodies import BODY_BYTES_MAX, VALUES_MAX, check_values
from tests.support.turns import check_turn, turns_ms, uncollected

IN_A_TEXT = b'"' + b"," * (VALUES_MAX + 1)
"""So many marks that they are counted, and none of them is one of a value."""
REST = BODY_BYTES_MAX - len(IN_A_TEXT)
BODIES = {
    "few marks": b" " * BODY_BYTES_MAX,
    "marks": b"," * VALUES_MAX + b" " * (REST - VALUES_MAX) + IN_A_TEXT,
    "empty texts": b'""' * (REST // 2) + IN_A_TEXT,
    "one text": IN_A_TEXT + b"," * REST,
    "one text of quotes": IN_A_TEXT + b'\\"' * (REST // 2),
    "texts of a quote": b'"\\""' * (REST // 4) + IN_A_TEXT,
}


@pytest.mark.parametrize("kind", BODIES)
def test_counting_the_values_of_a_body(kind: str) -> None:
    async def counted() -> None:
        with suppress(HTTPException):
            await check_values(BODIES[kind])
        await asyncio.sleep(0)

    with uncollected():
        check_turn(f"values of {kind}", lambda: max(turns_ms(counted())))
