"""What is in the metastore: the tables of one data directory, as they are now.

Nothing is kept but for the view of all tables, for a second after it is made: a query
asks for it more than once. So a topic that was made a moment ago is there. It works
without the broker; what only that knows is null then.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from admin_api.kafka import Kafka
from admin_api.lake import Lake
from admin_api.metastore import objects, state
from admin_api.metastore.names import STATE, Names, table_names
from admin_api.status import StatusFiles
from admin_api.tables.facts import FactsReader
from admin_api.tables.survey import survey
from broker.clock import Clock
from broker.topics.topic import Topic
from lakehouse.errors import LocationRefused
from lakehouse.location import check_contained, table_place, warehouse_of
from lakehouse.log.delta_log import LOG_DIRECTORY

DATABASE: Final = "lakelog"
DEFAULT: Final = "default"
"""Spark asks for it when it starts; nothing is in it."""
KEPT_MS: Final = 1_000


class Content:
    """Databases and tables; raises CatalogError where there is no data directory."""

    def __init__(self, data_dir: Path, clock: Clock) -> None:
        self._data_dir = data_dir
        self._lake = Lake(data_dir)
        self._facts = FactsReader(self._lake)
        self._status = StatusFiles(data_dir)
        self._clock = clock
        self._kafka: Kafka | None = None
        self._view: tuple[int, bytes] | None = None
        self._viewing = asyncio.Lock()

    @property
    def _warehouse(self) -> Path:
        return warehouse_of(self._data_dir)

    def databases(self) -> list[str]:
        return [DEFAULT, DATABASE]

    def database(self, name: str) -> bytes | None:
        """As it is described; None if there is none of that name."""
        if name.lower() == DATABASE:
            said = (
                "The topics of a Lakelog, each a Delta table; tables: how far they are"
            )
            return objects.database(DATABASE, said)
        if name.lower() == DEFAULT:
            return objects.database(DEFAULT, "")
        return None

    async def tables(self, database: str) -> list[str]:
        """The names of its tables, sorted: a topic without records has none yet."""
        if database.lower() != DATABASE:
            return []
        return await self._lake.threads.run(self._names)

    async def typed(self, database: str, kind: str) -> list[str]:
        """The same of one type: ``VIRTUAL_VIEW`` or ``EXTERNAL_TABLE``."""
        names = await self.tables(database)
        return [
            n for n in names if kind == (objects.VIEW if n == STATE else objects.TABLE)
        ]

    def _names(self) -> list[str]:
        named = table_names(self._lake.names())
        return sorted([STATE, *(n for n in named if self._place(named[n]) is not None)])

    async def table(self, database: str, name: str) -> bytes | None:
        """As it is described; None if there is none of that name."""
        return next(iter(await self.named(database, [name])), None)

    async def named(self, database: str, names: Iterable[str]) -> list[bytes]:
        """Those of the names that are there, as they are described; each once."""
        if database.lower() != DATABASE:
            return []
        wanted = list(dict.fromkeys(name.lower() for name in names))
        others = [name for name in wanted if name != STATE]
        found = await self._lake.threads.run(self._described, others) if others else {}
        if len(others) < len(wanted):
            found[STATE] = await self._state()
        return [found[name] for name in wanted if name in found]

    def _described(self, names: Sequence[str]) -> dict[str, bytes]:
        """The catalog is asked once, however many they are."""
        known = Names(self._lake.names())
        topics = {name: known.topic_of(name) for name in names}
        asked = sorted({topic for topic in topics.values() if topic is not None})
        places = self._places_of(asked)
        return {
            name: objects.delta_table(
                DATABASE, name, places[topic], f"The records of the Kafka topic {topic}"
            )
            for name, topic in topics.items()
            if topic in places
        }

    def _places_of(self, names: list[str]) -> dict[str, str]:
        """The directories of those topics whose table is there, and is theirs."""
        found = {name: self._place(name) for name in names}
        there = {name: place for name, place in found.items() if place is not None}
        topics = [topic for topic, _ in self._lake.topics(list(there))]
        return {one.name: there[one.name] for one in topics if self._is_its_own(one)}

    def _is_its_own(self, topic: Topic) -> bool:
        """Whether the table there is this topic's, or cannot be read: not that of an
        earlier topic of the name."""
        facts = self._facts.of(topic)
        return facts.version is not None or facts.problem is not None

    def _place(self, topic: str) -> str | None:
        """The directory of a topic's table; None if there is none, or a link that
        leads out of the data directory."""
        place = table_place(self._warehouse, topic)
        if not os.path.isdir(os.path.join(place, LOG_DIRECTORY)):
            return None
        try:
            check_contained(place)
        except LocationRefused:
            return None
        return place

    async def _state(self) -> bytes:
        async with self._viewing:
            now_ms = self._clock.monotonic_ms()
            if self._view is None or self._view[0] + KEPT_MS < now_ms:
                found = await self._state_now()  # of thousands it takes seconds
                self._view = self._clock.monotonic_ms(), found
            return self._view[1]

    async def _state_now(self) -> bytes:
        names = await asyncio.to_thread(self._lake.names)
        kafka = await asyncio.to_thread(self._broker)
        found = await survey((self._lake, self._facts, kafka, self._status), names)
        called = {topic: name for name, topic in table_names(names).items()}

        def described() -> bytes:
            named = [
                (None if one.facts.version is None else called[one.topic.name], one)
                for one in found
            ]
            query = state.query_of(named)
            return objects.view(DATABASE, STATE, query, state.COLUMNS, state.COMMENT)

        return await asyncio.to_thread(described)

    def _broker(self) -> Kafka | None:
        """The broker that runs, if one does: it may have started after us."""
        status = self._status.broker()
        if status is None or status.state != "serving":
            return None
        if self._kafka is None or self._kafka.bootstrap != status.kafka:
            self._kafka = Kafka(status.kafka)
        return self._kafka
