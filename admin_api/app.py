"""The application: which endpoints there are, and how errors look."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI

from admin_api import problems
from admin_api.access.audit import Audit
from admin_api.access.callers import Callers
from admin_api.access.guards import VIEWER
from admin_api.access.hosts import Hosts
from admin_api.access.tokens import Tokens
from admin_api.acls import endpoints as acls
from admin_api.bodies import BodyLimit
from admin_api.brokers import endpoints as brokers
from admin_api.clusters import endpoints as clusters
from admin_api.commits import endpoints as commits
from admin_api.compaction import endpoints as compaction
from admin_api.configs import endpoints as configs
from admin_api.connections import endpoints as connections
from admin_api.consumer_groups import endpoints as consumer_groups
from admin_api.debug import endpoints as debug
from admin_api.dependencies import ONE_DEADLINE
from admin_api.docs import endpoints as docs
from admin_api.guide import endpoints as guide
from admin_api.health import endpoints as health
from admin_api.internal import Internal
from admin_api.kafka import TIMEOUT_S, Kafka
from admin_api.lag_history import endpoints as lag_history
from admin_api.lag_history.recorder import LagRecorder
from admin_api.lake import Lake
from admin_api.loggers import endpoints as loggers
from admin_api.loggers.parts import Levels, Parts
from admin_api.metrics import endpoints as metrics
from admin_api.metrics.exporter import Exporter
from admin_api.overview import endpoints as overview
from admin_api.partitions import endpoints as partitions
from admin_api.queries import KNOWN_QUERY
from admin_api.reading import endpoints as reading
from admin_api.reading.readers import Readers
from admin_api.records import endpoints as records
from admin_api.records.backlog import Held
from admin_api.records.producer import RecordProducer
from admin_api.records.streams import Streams
from admin_api.records.unfinished import AllUnfinished
from admin_api.resets import endpoints as resets
from admin_api.security import endpoints as security
from admin_api.settings import endpoints as own_settings
from admin_api.slashes import EncodedSlashes, decode_names
from admin_api.snippets import endpoints as snippets
from admin_api.status import StatusFiles
from admin_api.tables import endpoints as tables
from admin_api.tables.facts import FactsReader
from admin_api.topics import endpoints as topics
from admin_api.versions import endpoints as versions
from broker.clock import SystemClock
from broker.settings import Settings

CONFLUENT = (
    clusters,
    brokers,
    configs,
    partitions,
    topics,
    records,
    consumer_groups,
    acls,
)
"""In the order in which paths are tried: `topics/-/...` is before `topics/{name}`."""
LAKEHOUSE = (
    compaction,
    tables,
    commits,
    versions,
    snippets,
    reading,
    overview,
    own_settings,
    connections,
    loggers,
    resets,
    lag_history,
    security,
    debug,
)
SHORT = (*(one for one in CONFLUENT if one is not records), resets)
"""Those that ask the broker several things, and then answer; who reads or writes
records asks it for as long as these come."""
OPEN = (health, docs, guide)
"""What anybody may ask: whether it lives, and the manuals, everywhere the same."""


def create_app(
    bootstrap: str,
    settings: Settings,
    timeout_s: float = TIMEOUT_S,
    *,
    is_closed: bool = False,
    is_exposed: bool = False,
    levels: Levels | None = None,
) -> FastAPI:
    """An admin plane for the broker at ``bootstrap``, of the data directory that the
    settings name. With ``is_closed`` it asks for a token although none was made yet;
    with ``is_exposed`` it may be asked by any name, if the settings name none.
    ``levels`` are those of this process's loggers.
    """
    data_dir = settings.data_dir
    producer = RecordProducer(bootstrap, timeout_s)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        recording = asyncio.create_task(app.state.lag_recorder.run())
        yield
        recording.cancel()
        await asyncio.to_thread(producer.close)

    app = FastAPI(
        title="Lakelog REST Admin API",
        version="3.0.0",
        description=docs.DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(decode_names)],
        generate_unique_id_function=lambda route: route.name,
    )
    app.add_middleware(BodyLimit)
    app.add_middleware(Audit)
    app.add_middleware(
        Callers,
        tokens=Tokens(data_dir),
        hosts=None if is_exposed and not settings.admin_hosts else Hosts(settings),
        is_closed=is_closed,
    )
    app.add_middleware(EncodedSlashes)
    app.state.kafka = Kafka(bootstrap, timeout_s)
    app.state.producer, app.state.bootstrap = producer, bootstrap
    app.state.status = StatusFiles(data_dir)
    app.state.settings = settings
    app.state.internal = Internal.of_broker(settings)
    app.state.loggers = Parts(
        app.state.internal,
        Internal.of_compactor(settings),
        levels,
        lambda: app.state.status.compactor() is not None,
    )
    app.state.all_held = Held()
    app.state.streams = Streams()
    app.state.all_unfinished = AllUnfinished()
    app.state.readers = Readers(bootstrap)
    app.state.clock = SystemClock()
    app.state.lag_recorder = LagRecorder(app.state.kafka, app.state.clock)
    app.state.exporter = Exporter(
        app.state.kafka, app.state.clock, app.state.internal, timeout_s / 2
    )
    app.state.bundles = asyncio.Semaphore(1)
    app.state.is_closed, app.state.address = is_closed, ""
    app.state.recent = ()
    app.state.lake = Lake(data_dir)
    app.state.facts = FactsReader(app.state.lake)
    problems.install(app)
    _include_routes(app)
    return app


def _include_routes(app: FastAPI) -> None:
    for module in OPEN:
        app.include_router(module.router)
    for module in (metrics, *CONFLUENT, *LAKEHOUSE):
        checks = [VIEWER, KNOWN_QUERY] if module in LAKEHOUSE else [VIEWER]
        if module in SHORT:
            checks.append(ONE_DEADLINE)
        app.include_router(
            module.router, responses=problems.DOCUMENTED, dependencies=checks
        )
