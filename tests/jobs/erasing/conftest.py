"""What tests of erasures beside compactors share."""

import pytest

from jobs.erasing import compactors


@pytest.fixture
def long_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes began before whatever a test says that they said."""
    monkeypatch.setattr(compactors, "_began_s", lambda pid: 0.0)
