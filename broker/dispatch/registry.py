"""The table of what is served, read off the handlers themselves.

A broker that lists an API which it does not serve breaks clients in silence, and a
list kept by hand is wrong sooner or later. So a handler says which key and versions it
serves where it is defined, the package of handlers is searched once at start, and
ApiVersions, the version check and the README's table all derive from what was found.

The price is that a handler's file is imported to know it: some tens of modules, once.
"""

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple, Protocol, TypeVar

from broker.protocol.api_keys import ApiKey
from broker.protocol.buffers import Buffer

Handler = Callable[..., Any]
"""``handler(request, context)``: a plain function. It returns the response, or a future
or coroutine of it, or None when nothing is to be sent. An awaitable may have
``retained_bytes``, what it keeps in memory if that is not the request's length, and
``abandon()``, which ends it when its connection is lost before it is answered (False:
it weighs until it is done), and ``cut_short()``, which ends its waiting: what waits
must not keep all others out."""

HandlerInTurns = Callable[..., Any]
"""As a `Handler`; it may also return a generator that yields where others may have
their turn, and returns what a handler does. Nothing behind the request starts before
that. When its connection is lost it ends, unless it is a write: that goes on."""

H = TypeVar("H", bound=Handler)


Answer = Callable[[int, Any], tuple[list[Buffer], int]]
"""(correlation id, response) to a whole answer, and how many bytes it has."""


class Repeat(Protocol):
    """Starts requests that begin with the same bytes as one that was read before."""

    prefix: bytes
    """Those bytes, from behind the correlation id on."""

    def start(self, frame: memoryview, correlation_id: int, /) -> Any:
        """As a handler; None: nothing was done, and the request is to be read."""


RepeatOf = Callable[[memoryview, Any, Any, Answer], Repeat | None]
"""(frame, request, context, answer) to what is kept of it, if anything."""


class Listed(NamedTuple):
    """An entry of ApiVersions."""

    key: int
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class Served:
    """One API and who answers it.

    ``pipelined``: requests have taken their effect, in order, when the handler returns,
    and only their answers come later; so a connection's next one may start already.
    All others are handled one at a time, as Kafka handles a connection's requests.
    Those of versions below ``pipelined_since`` are, too, and those answered with a
    coroutine: it takes a while before the effect.

    ``awaits_others``: an answer may wait for other clients' requests. So it holds none
    of the memory that these have to wait for, or nobody could go on.

    ``keeps_alive``: whoever sends none is taken for dead. So these start, and so do
    those that may wait for others, while no memory is left for the others' answers, if
    they are small.

    ``in_turns``: the handler of large requests, if one of many elements takes longer to
    take effect than the loop may be held.

    ``is_bulky``: an answer may be so large that it takes milliseconds to make it and to
    hand it over; so where others have used up a turn of the loop, it waits.

    ``switch``: what has to be on for it to be served and listed; nothing, mostly.
    """

    key: ApiKey
    first_version: int
    last_version: int
    handler: Handler
    pipelined: bool = False
    repeat: RepeatOf | None = None
    awaits_others: bool = False
    keeps_alive: bool = False
    pipelined_since: int = 0
    in_turns: HandlerInTurns | None = None
    switch: str = ""
    is_bulky: bool = False

    @property
    def listed(self) -> Listed:
        return Listed(int(self.key), self.first_version, self.last_version)


def serves(
    key: ApiKey,
    *,
    versions: tuple[int, int],
    pipelined: bool = False,
    pipelined_since: int = 0,
    repeat: RepeatOf | None = None,
    awaits_others: bool = False,
    keeps_alive: bool = False,
    in_turns: HandlerInTurns | None = None,
    switch: str = "",
    is_bulky: bool = False,
) -> Callable[[H], H]:
    """Mark a function as the handler of an API in versions first to last, inclusive.

    ``repeat`` may keep of a request what lets later ones like it be started faster; all
    others are those of ``Served``.
    """
    first, last = versions
    assert 0 <= first <= last, f"{key.name}: versions {versions} are no range"

    def mark(handler: H) -> H:
        handler.__dict__["served"] = Served(
            key, first, last, handler, pipelined, repeat, awaits_others, keeps_alive,
            pipelined_since, in_turns, switch, is_bulky,
        )  # fmt: skip
        return handler

    return mark


class Registry:
    """Which handler answers a key, and what ApiVersions lists."""

    def __init__(self, served: Iterable[Served]) -> None:
        table: dict[int, Served] = {}
        for api in sorted(served, key=lambda api: api.key):
            assert api.key not in table, f"{api.key.name} is served twice"
            table[int(api.key)] = api
        self.by_key: Mapping[int, Served] = MappingProxyType(table)
        self.pipelined = frozenset(key for key, api in table.items() if api.pipelined)
        self.urgent = frozenset(
            key for key, api in table.items() if api.keeps_alive or api.awaits_others
        )
        self.brief = frozenset(key for key, api in table.items() if not api.is_bulky)

    @classmethod
    def discover(
        cls, package: str = "broker.apis", *, switches: Collection[str] = ()
    ) -> "Registry":
        """Import every module of a package and collect its one handler, if it has no
        switch or one that is on.

        A module whose name starts with an underscore is shared by handlers and is none.
        """
        found = (_served_by(module) for module in _modules(package))
        return cls(api for api in found if not api.switch or api.switch in switches)

    def find(self, key: int, version: int) -> Served | None:
        """The API that serves this version, None if nobody does."""
        api = self.by_key.get(key)
        if api is None or not api.first_version <= version <= api.last_version:
            return None
        return api

    def listed(self) -> tuple[Listed, ...]:
        """What ApiVersions says, sorted by key (librdkafka searches it by halves)."""
        return tuple(api.listed for api in self.by_key.values())


def _modules(package: str) -> Iterator[ModuleType]:
    root = importlib.import_module(package)
    for module in pkgutil.iter_modules(root.__path__):
        if not module.name.startswith("_"):
            yield importlib.import_module(f"{package}.{module.name}")


def _served_by(module: ModuleType) -> Served:
    """The one handler of a module, named as its file and as its API."""
    found = [
        value.served
        for value in vars(module).values()
        if callable(value)
        and isinstance(getattr(value, "served", None), Served)
        and value.__module__ == module.__name__
    ]
    assert len(found) == 1, f"{module.__name__} has {len(found)} handlers, not one"
    served: Served = found[0]
    name = module.__name__.rpartition(".")[2]
    assert name == served.key.name.lower(), f"{name}.py serves {served.key.name}"
    assert served.handler.__name__ == name, f"{name}.py: the handler is not {name}()"
    return served
