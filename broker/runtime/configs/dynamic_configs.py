"""What clients have configured while the broker runs: an image of the catalog.

The problem: Kafka's users change a broker's limits, a group's settings and which
metrics clients push, without a restart, and find them changed after one. The idea: as
with topics, the catalog is changed first and the image when that has committed; whoever
acts on a value watches, and a change is answered when all watchers have acted. What
holds is file < environment < flag < all brokers' < this broker's (``Layers``).

The price: all of it is in memory. So there are bounds, and POLICY_VIOLATION beyond
them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from broker.catalog import dynamic_configs as stored
from broker.catalog.catalog import Catalog
from broker.catalog.dynamic_configs import Resource
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.configs.layers import ALL_BROKERS, Kind, Layers
from broker.runtime.topics.topics import to_the_end
from broker.settings import Settings

KEYS_MAX: Final = 500
"""Of one resource; Kafka's brokers have 341, and take what they do not know as well."""
RESOURCES_MAX: Final = 10_000
BYTES_MAX: Final = 8 << 20
"""Of all names and values together."""

ALTERED_AT_ONCE: Final = 64
"""So many resources change side by side, and the catalog commits them together."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})

Edit = Callable[[Mapping[str, str]], dict[str, str]]
Watcher = Callable[[Resource], Awaitable[object]]


class DynamicConfigs:
    """The configurations of this broker, of all, of groups and of client metrics.

    ``given`` are the settings that the broker was started with.
    """

    def __init__(self, catalog: Catalog, given: Settings) -> None:
        self.given = given
        self._catalog = catalog
        self._configs: dict[Resource, dict[str, str]] = {}
        self._bytes = 0
        self._coming = 0
        self._altering = [asyncio.Lock() for _ in range(ALTERED_AT_ONCE)]
        """A resource has always the same one of them."""
        self._watchers: list[Watcher] = []
        self._of_node = Kind.BROKER, str(given.node_id)
        self._of_all = Kind.BROKER, ALL_BROKERS

    def load(self) -> None:
        """Take over what the catalog holds, at start, before anybody watches.
        Blocks."""
        self._configs = self._catalog.read(stored.load)
        self._bytes = sum(map(_size, self._configs, self._configs.values()))

    def watch(self, watcher: Watcher) -> None:
        """Let it be awaited, with the resource, after each change that is durable."""
        self._watchers.append(watcher)

    def of(self, kind: int, name: str) -> Mapping[str, str]:
        """What is configured of a resource; empty if nothing is."""
        return self._configs.get((kind, name), _NONE)

    def names(self, kind: int) -> list[str]:
        """The resources of a kind of which something is configured."""
        return sorted(name for of_kind, name in self._configs if of_kind == kind)

    @property
    def layers(self) -> Layers:
        """Where this broker's values come from, as of now."""
        return Layers(self.given, self.of(*self._of_node), self.of(*self._of_all))

    async def alter(self, resource: Resource, edit: Edit) -> None:
        """Change a resource's configuration by ``edit``; in effect when this returns.

        Raises KafkaError: as ``edit``; POLICY_VIOLATION beyond what is kept.
        """
        await to_the_end(self._alter(resource, edit))

    async def _alter(self, resource: Resource, edit: Edit) -> None:
        async with self._altering[hash(resource) % ALTERED_AT_ONCE]:
            before = self.of(*resource)
            kept = self.check(resource, edit)
            if kept == before:
                return
            await self._store(resource, kept, before)
            self._configs.pop(resource, None)
            if kept:
                self._configs[resource] = kept
            for watcher in self._watchers:
                await watcher(resource)

    async def _store(
        self, resource: Resource, kept: dict[str, str], before: Mapping[str, str]
    ) -> None:
        """Make it durable; what it takes is counted from now on."""
        size = _size(resource, kept) - _size(resource, before)
        is_new = bool(kept) and not before
        self._bytes, self._coming = self._bytes + size, self._coming + is_new
        change = partial(stored.store, resource=resource, configs=kept)
        try:
            await asyncio.wrap_future(self._catalog.submit(change))
        except BaseException:
            self._bytes -= size
            raise
        finally:
            self._coming -= is_new

    def check(self, resource: Resource, edit: Edit) -> dict[str, str]:
        """The configuration as ``alter`` would leave it, and its errors."""
        before = self.of(*resource)
        kept = edit(before)
        added = _size(resource, kept) - _size(resource, before)
        is_new = bool(kept) and not before
        if len(kept) > KEYS_MAX:
            raise _too_much(f"{KEYS_MAX} keys of a resource")
        if is_new and len(self._configs) + self._coming >= RESOURCES_MAX:
            raise _too_much(f"{RESOURCES_MAX} resources")
        if added > 0 and self._bytes + added > BYTES_MAX:
            raise _too_much(f"{BYTES_MAX} bytes of all configurations")
        return kept


def _size(resource: Resource, configs: Mapping[str, str]) -> int:
    """Characters, near enough; a resource of which nothing is configured takes none."""
    values = sum(len(name) + len(value) for name, value in configs.items())
    return values + len(resource[1]) if configs else 0


def _too_much(what: str) -> KafkaError:
    return KafkaError(
        ErrorCode.POLICY_VIOLATION, f"No more than {what} are kept by this broker."
    )
