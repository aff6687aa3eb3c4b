"""Targets take a value, or none."""

import pytest
from pydantic import ValidationError

from admin_api.resets.schemas import ResetOffsets


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": "EARLIEST", "value": 1},
        {"to": "OFFSET"},
        {"to": "OFFSET", "value": -1},
        {"to": "DURATION", "value": -1},
        {"to": "BEGINNING"},
        {"to": "LATEST", "topics": []},
        {"to": "SHIFT", "value": 2**63},
        {"to": "LATEST", "topics": [{"topic_name": "a", "partitions": [0]}] * 2},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValidationError):
        ResetOffsets(**wrong)


def test_a_reset_is_a_dry_run_unless_it_is_said():
    assert ResetOffsets(to="LATEST").dry_run
    assert ResetOffsets(to="SHIFT", value=-5).value == -5
