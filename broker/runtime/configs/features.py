"""Features: what this broker can be told to do, and how much of it is finalized.

Kafka's clients and tools ask which level of a feature all brokers have agreed upon
(KIP-584). ``metadata.version`` says whose behaviour is followed, and stays: Kafka, too,
refuses to lower what its metadata may need. ``transaction.version`` can be lowered, and
clients add partitions to their transactions themselves again. What is not served (new
groups, share and streams groups) is no feature here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple

from broker.catalog import features as stored
from broker.catalog.catalog import Catalog
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.topics.topics import to_the_end
from broker.topics.names import shown
from broker.transactions.metadata import V2

METADATA_VERSION: Final = "metadata.version"
METADATA_LEVELS: Final = (7, 30)
"""3.3-IV3 to 4.3-IV0."""
TRANSACTION_VERSION: Final = "transaction.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class Feature(NamedTuple):
    """The levels that are supported; the highest is finalized until somebody lowers
    it."""

    min_level: int
    max_level: int


SUPPORTED: Final[Mapping[str, Feature]] = {
    METADATA_VERSION: Feature(*METADATA_LEVELS),
    TRANSACTION_VERSION: Feature(0, V2),
}


class FeatureUpdate(NamedTuple):
    """One feature to be finalized at another level."""

    name: str
    level: int
    kind: int


class Features:
    """The finalized features of this broker. For the event loop's thread only."""

    def __init__(self, catalog: Catalog, node_id: int) -> None:
        self._catalog = catalog
        self._node = f"Local controller {node_id}"
        self._levels = {name: one.max_level for name, one in SUPPORTED.items()}
        self._updating = asyncio.Lock()
        self.epoch = 0
        self.on_change: Callable[[], object] = lambda: None

    def load(self) -> None:
        """Take over what the catalog holds, at start. Blocks."""
        levels, self.epoch = self._catalog.read(stored.load)
        for name, level in levels.items():
            supported = SUPPORTED.get(name)
            if supported and supported.min_level <= level <= supported.max_level:
                self._levels[name] = level

    @property
    def finalized(self) -> Mapping[str, int]:
        """Feature -> level; none at level 0, which is as if it were not there."""
        return {name: level for name, level in self._levels.items() if level}

    def level(self, name: str) -> int:
        """The level of a feature that is supported."""
        return self._levels[name]

    def update(
        self, updates: Iterable[FeatureUpdate], *, validate_only: bool
    ) -> Awaitable[None]:
        """Finalize other levels, of all features or of none; durable, then in effect.

        Raises KafkaError INVALID_UPDATE_VERSION, as ``FeatureControlManager``.
        """
        return to_the_end(self._update(list(updates), validate_only))

    async def _update(self, updates: list[FeatureUpdate], validate_only: bool) -> None:
        async with self._updating:
            changed = dict[str, int]()
            for update in updates:
                self._check(update)
                if update.level != self._levels[update.name]:
                    changed[update.name] = update.level
            if validate_only or not changed:
                return
            self.epoch = await asyncio.wrap_future(
                self._catalog.submit(lambda c: stored.store(c, changed))
            )
            self._levels |= changed
            self.on_change()

    def _check(self, update: FeatureUpdate) -> None:
        why = self._why_not(*update)
        if why:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had "
                f"an error: {why}",
            )

    def _why_not(self, name: str, level: int, kind: int) -> str:
        """What Kafka says of it; empty if it can be."""
        supported = SUPPORTED.get(name)
        if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            why = "The controller does not support the given upgrade type."
        elif level < 0:
            why = "A feature version cannot be less than 0."
        elif supported is None and level == 0:
            why = f"Feature {shown(name)} not found."
        elif supported is None:
            why = f"{self._node} does not support this feature."
        elif not supported.min_level <= level <= supported.max_level:
            levels = f"{supported.min_level}-{supported.max_level}"
            why = f"{self._node} only supports versions {levels}"
        elif level < self._levels[name] and kind == UPGRADE:
            why = (
                "Can't downgrade the version of this feature without setting the "
                "upgrade type to either safe or unsafe downgrade."
            )
        elif level < self._levels[name] and name == METADATA_VERSION:
            return self._keeps_metadata(level, kind)
        else:
            return ""
        return f"Invalid update version {level} for feature {shown(name)}. {why}"

    def _keeps_metadata(self, level: int, kind: int) -> str:
        why = "Unsafe metadata downgrade is not supported in this version."
        if kind == SAFE_DOWNGRADE:
            why = (
                "Refusing to perform the requested downgrade because it might delete "
                "metadata information."
            )
        return (
            f"Unsupported metadata.version downgrade from "
            f"{self._levels[METADATA_VERSION]} to {level}. {why}"
        )
