"""The application: which endpoints there are, and how errors look."""

from pathlib import Path

from fastapi import FastAPI

from admin_api import problems
from admin_api.clusters import endpoints as clusters
from admin_api.health import endpoints as health
from admin_api.kafka import TIMEOUT_S, Kafka
from admin_api.metrics import endpoints as metrics
from admin_api.status import StatusFiles
from admin_api.topics import endpoints as topics


def create_app(bootstrap: str, data_dir: Path, timeout_s: float = TIMEOUT_S) -> FastAPI:
    """An admin plane for the broker at ``bootstrap`` with its data directory."""
    app = FastAPI(title="Lakelog REST Admin API", version="3.0.0")
    app.state.kafka = Kafka(bootstrap, timeout_s)
    app.state.status = StatusFiles(data_dir)
    problems.install(app)
    for module in (health, metrics, clusters, topics):
        app.include_router(module.router)
    return app
