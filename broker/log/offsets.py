"""The four numbers that say where a partition stands, and their order.

``start <= stable <= durable <= next`` holds at every instant: what may be read, what
is decided, what is on disk, what has been given away. They are correlated, so they are
moved by the functions here and checked there; a broken order is our own mistake, and is
told before it is served.

Source: Kafka's ``UnifiedLog`` (log start, last stable offset, high watermark, log end);
the single setter is that of redpanda's ``offset_tracker``.
"""


class LogOffsets:
    """Offsets of one partition; each names the record after the last that counts.

    ``start``    the first offset that a consumer may ask for
    ``stable``   the last stable offset: below it no transaction is open
    ``durable``  the high watermark: below it all is on disk
    ``next``     the offset that the next batch gets
    """

    __slots__ = ("durable", "next", "stable", "start")

    def __init__(self, start: int = 0, durable: int | None = None) -> None:
        end = start if durable is None else durable
        assert 0 <= start <= end
        self.start = start
        self.stable = self.durable = self.next = end

    def move(
        self,
        *,
        start: int | None = None,
        stable: int | None = None,
        durable: int | None = None,
        next_offset: int | None = None,
    ) -> None:
        """Move any of them. ``start`` and ``durable`` never go back."""
        if next_offset is not None:
            self.next = next_offset
        if durable is not None:
            assert durable >= self.durable, f"durable {self.durable} -> {durable}"
            self.durable = durable
        if stable is not None:
            assert stable >= self.stable, f"stable {self.stable} -> {stable}"
            self.stable = stable
        if start is not None:
            assert start >= self.start, f"start {self.start} -> {start}"
            self.start = start
        assert self.start <= self.stable <= self.durable <= self.next, self

    def assign(self, end: int) -> None:
        """Assign the offsets below ``end`` to a batch: ``next`` grows."""
        assert end > self.next, f"next {self.next} -> {end}"
        self.next = end

    def advance(self, end: int) -> None:
        """All below ``end`` is on disk and decided: ``durable`` and ``stable`` grow."""
        assert self.durable < end <= self.next, f"durable {self.durable} -> {end}"
        self.durable = self.stable = end

    def restore_stable(self, stable: int) -> None:
        """Set the last stable offset, back as well: at a start, while what is durable
        is read and nobody has been told of an offset."""
        assert self.start <= stable <= self.durable, f"stable {stable} of {self}"
        self.stable = stable

    def __repr__(self) -> str:
        return (
            f"LogOffsets(start={self.start}, stable={self.stable}, "
            f"durable={self.durable}, next={self.next})"
        )
