"""What holds for every test.

A property is checked for what it says, not for how long a shared machine needed. With
``--seed`` or ``LAKELOG_TEST_SEED`` twins run in the order of that seed, so that none
lives on what another one left; seed 0 takes a new one, and it is told.

Workers of pytest-xdist get whole modules, so that what a module's tests share is made
once, and one worker gets all modules that start a Spark.
"""

import gc
import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.support.shuffle import shuffled

settings.register_profile("lakelog", deadline=None)
settings.load_profile("lakelog")

IN_THEIR_ORDER = ("clients", "crash", "journeys", "simulation")
"""Stories on programs that several tests share."""

CLOSED = tuple(
    f"tests/{name}/"
    for name in (
        "broker/apis", "broker/catalog", "broker/cli", "broker/dispatch",
        "broker/groups", "infra",
    )
)  # fmt: skip
"""Nothing in these is left to the garbage collector to close, nor fails in it; the
list only gets longer."""
LEAKS = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="the order of the twins; 0: a new one")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed, once for all workers."""
    told = os.environ.pop("LAKELOG_TEST_SEED", None)  # no program knows this setting
    if hasattr(config, "workerinput"):
        config.option.seed = config.workerinput["seed"]
        return
    if config.option.seed is None and told:
        config.option.seed = int(told)
    if config.option.seed == 0:
        config.option.seed = 1 + secrets.randbelow(100_000)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker of pytest-xdist is given what the others have."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.option.seed
    return f"order of tests: {'as written' if seed is None else f'--seed {seed}'}"


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(pytest_report_header(config))


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Twins first, in their order; workers begin with what takes long."""
    for item in items:
        if item.nodeid.startswith(CLOSED):
            for leak in LEAKS:
                item.add_marker(pytest.mark.filterwarnings(f"error::{leak}"))
    twins = [item for item in items if folder(item) not in IN_THEIR_ORDER]
    stories = [item for item in items if folder(item) in IN_THEIR_ORDER]
    if config.option.seed is not None:
        twins = shuffled(twins, lambda item: item.nodeid, config.option.seed)
    if not hasattr(config, "workerinput"):
        items[:] = twins + stories
        return
    items[:] = stories + twins
    sparks = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: item.path not in sparks)
    for item in items:
        group = "spark" if item.path in sparks else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(autouse=True, scope="module")
def collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a module leaves open is not found in another one's tests."""
    yield
    if not request.node.nodeid.startswith(CLOSED):
        gc.collect()


def folder(item: pytest.Item) -> str:
    return item.nodeid.split("/")[1]
