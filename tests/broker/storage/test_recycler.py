"""The recycler's thread, whatever it meets."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.storage.pool import NEW_SUFFIX
from broker.storage.recycler import RETRY_S
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


class NoNewFiles(ForgetfulFiles):
    """Makes no segment file any more once it is broken, by a fault of ours."""

    broken = False
    asked = 0

    def create(self, path: Path) -> int:
        if self.broken and path.name.endswith(NEW_SUFFIX):
            self.asked += 1
            raise ValueError("a fault")
        return super().create(path)


def test_a_fault_that_stays_is_told_once_and_whoever_waits_is_refused() -> None:
    files = NoNewFiles()
    driver = Driver(files, spare_segments=1)
    driver.finish([driver.append()])
    files.broken = True
    with capture_logs() as logs:
        appends = [driver.append(4000) for _ in range(12)]
        driver.finish(appends)
        driver.until(lambda: files.asked > 1)
    assert appends[-1].error is not None
    assert [one for one in logs if "exc_info" in one] == logs[:1]
    assert driver.wal._recycler._patience() == RETRY_S
    driver.close()
