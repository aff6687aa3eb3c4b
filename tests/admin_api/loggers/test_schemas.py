"""Levels have names, and no others."""

import pytest
from pydantic import ValidationError

from admin_api.loggers.schemas import UpdateLogger
from broker.runtime.process.levels import NAMES


def test_the_levels_are_those_that_the_broker_knows():
    assert [UpdateLogger(level=name).level for name in NAMES] == list(NAMES)
    with pytest.raises(ValidationError):
        UpdateLogger(level="loud")
