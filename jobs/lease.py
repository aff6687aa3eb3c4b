"""Being the one compactor: a lease in the catalog, renewed while we live.

The lease saves work, it does not guard the tables: a process that was stopped for
longer than its lease still believes that it holds it. What guards them is the check in
each commit (`lakehouse.log.commit`). So the lease may be short, and a new compactor
takes over seconds after an old one was killed.
"""

import threading
from typing import Final

import structlog

from broker.catalog import leases
from broker.catalog.catalog import Catalog
from broker.clock import Clock
from broker.protocol.errors import KafkaError

NAME: Final = "compactor"
TTL_MS: Final = 6_000

log = structlog.get_logger("lakelog.compactor")


class LeaseKeeper:
    """Acquires, renews on a thread of its own, and gives it up at the end."""

    def __init__(self, catalog: Catalog, holder: str, clock: Clock) -> None:
        self._catalog, self._holder, self._clock = catalog, holder, clock
        self._epoch: int | None = None
        self._held_until_ms = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def start(self) -> None:
        """Try now, then go on in the background."""
        self._attempt()
        self._thread.start()

    @property
    def held(self) -> bool:
        """Whether it is ours, and not about to expire."""
        return self._clock.monotonic_ms() < self._held_until_ms

    def stop(self) -> None:
        """Give the lease up, so that the next owner need not wait."""
        self._stop.set()
        self._thread.join()
        epoch, self._epoch, self._held_until_ms = self._epoch, None, 0
        if epoch is not None:
            self._catalog.change(
                lambda connection: leases.release(connection, NAME, self._holder, epoch)
            )

    def _keep(self) -> None:
        while not self._stop.wait(TTL_MS / 3000 if self.held else TTL_MS / 12_000):
            self._attempt()

    def _attempt(self) -> None:
        asked_ms = self._clock.monotonic_ms()
        now_ms = self._clock.now_ms()
        try:
            epoch = self._catalog.change(
                lambda connection: leases.acquire(
                    connection, NAME, self._holder, now_ms, TTL_MS
                )
            )
        except KafkaError as error:  # as the writer calls all that the database refuses
            log.warning("the lease cannot be renewed", why=str(error))
            return
        if epoch is not None:
            # Counted from before we asked, so that we never hold it longer than it is.
            self._held_until_ms = asked_ms + TTL_MS
        self._epoch = epoch
