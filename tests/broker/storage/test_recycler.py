"""The recycler's thread, whatever it meets."""

import pytest

from tests.broker.storage.driver import Driver
from tests.support.files import ForgetfulFiles


@pytest.mark.parametrize("operation", ["rename", "create"])
def test_a_fault_is_told_and_ends_no_thread(operation: str) -> None:
    """Who waits for a file would wait for ever, and nobody would know why."""
    files = ForgetfulFiles()
    driver = Driver(files, spare_segments=1)
    driver.finish([driver.append()])
    fault: OSError = ValueError("a fault")  # type: ignore[assignment]
    files.fail(operation, fault)
    driver.wal.checkpoint(b"")
    driver.until(lambda: driver.wal.failed is not None)
    assert "a fault" in str(driver.wal.failed)
    refused = driver.append()
    driver.finish([refused])
    assert refused.error is not None
    driver.wal.look_at_space()
    driver.until(lambda: driver.wal._recycler._calls.empty())
    driver.close()
