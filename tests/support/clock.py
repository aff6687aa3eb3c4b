"""A clock that stands still until it is moved."""


class ManualClock:
    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.wall_ms = now_ms
        self.mono_ms = 0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.mono_ms

    def monotonic_ns(self) -> int:
        return self.mono_ms * 1_000_000

    def advance(self, ms: int) -> None:
        self.wall_ms += ms
        self.mono_ms += ms
