"""What holds for every test.

A property is checked for what it says, not for how long a shared machine needed. Twins
run in a random order, so that none lives on what another one left. Its seed is told, is
hypothesis's too, and another one is had by ``--seed`` or ``LAKELOG_TEST_SEED``. It
follows from what the tests say: each change of theirs takes another order, and what
fails on one machine fails on the next.

Workers of pytest-xdist get whole modules, so that what a module's tests share is made
once; those that start a Spark come first, on any worker, and twins that take long
before the others: at the end all would wait for one of them.
"""

import gc
import os
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.unraisableexception import collect_unraisable
from hypothesis import settings

from tests.support.shares import ALL, REST, SHARE, Shares
from tests.support.shuffle import shuffled
from tests.support.spark_archive import for_short_sparks
from tests.support.spark_reader import SparkReader
from tests.support.wire import forget_opened

settings.register_profile("lakelog", deadline=None)
settings.load_profile("lakelog")

IN_THEIR_ORDER = ("clients", "crash", "journeys", "semantics", "simulation")
"""Stories on programs that several tests share."""

OTHERS_CODE = ("clients", "crash", "journeys", "semantics")
"""Ours runs in other processes there, and the libraries of clients in the test's. They
leave sockets, loops and consumers to the collector when a broker is killed."""
TESTS = Path(__file__).parent
TAKE_LONG = ("architecture/test_tools", "infra/test_guide", "infra/test_operate")
"""Twins that run whole programs for long."""
LEAKS = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="the order of the twins; 0: as written")
    runs = {"choices": [ALL, SHARE, REST], "default": ALL}
    parser.addoption("--stories", help="of those that are shared out: which", **runs)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed, once for all workers, and for hypothesis; spare Sparks work."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", for_short_sparks())
    asked = os.environ.pop("LAKELOG_TEST_SEED", None)  # no program knows this setting
    if hasattr(config, "workerinput"):
        config.option.seed = config.workerinput["seed"]
    elif config.option.seed is None:
        config.option.seed = int(asked) if asked else seed_of(TESTS)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(config.option.seed)
    config.pluginmanager.register(Shares(config))


def seed_of(folder: Path) -> int:
    """A number that the text of all modules below ``folder`` makes."""
    number = 0
    for path in sorted(folder.rglob("*.py")):
        number = zlib.crc32(path.read_bytes(), number)
    return 1 + number % 100_000


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(AtOnce(session.config))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker of pytest-xdist is given what the others have."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> list[str]:
    seed = config.option.seed
    where = tempfile.gettempdir()
    return [
        f"order of tests: --seed {seed}{'' if seed else ' (as written)'}",
        f"free below {where}: {shutil.disk_usage(where).free >> 20} MiB",
    ]


class AtOnce:
    """Names what failed as soon as it did: a run that is ended early has told it."""

    def __init__(self, config: pytest.Config) -> None:
        self._terminal = config.pluginmanager.get_plugin("terminalreporter")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._terminal is not None:
            why = report.longreprtext.strip().rpartition("\n")[2]
            self._terminal.write_line(
                f"\nFAILED {report.nodeid} ({report.when}): {why}"
            )


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        for line in pytest_report_header(config):
            terminalreporter.write_line(line)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Twins first, in their order; workers begin with what takes long."""
    for item in items:
        if folder(item) in OTHERS_CODE:
            for leak in LEAKS:
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{leak}"))
    twins = [item for item in items if folder(item) not in IN_THEIR_ORDER]
    stories = [item for item in items if folder(item) in IN_THEIR_ORDER]
    if config.option.seed:
        twins = shuffled(twins, lambda item: item.nodeid, config.option.seed)
    if not hasattr(config, "workerinput"):
        items[:] = twins + stories
        return
    long = {TESTS / f"{name}.py" for name in TAKE_LONG}
    items[:] = stories + sorted(twins, key=lambda item: item.path not in long)
    sparks = {item.path for item in items if starts_spark(item)}
    items.sort(key=lambda item: item.path not in sparks)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Hardly anything that is imported and collected is garbage: the collector looks
    once, at the end, and not again and again at ever more."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was imported and collected stays: the collector, which looks after each
    module, took four tenths of a second for these 700,000 objects every time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At its end the interpreter collects all, or libraries say that they leak."""
    gc.unfreeze()


def starts_spark(item: pytest.Item) -> bool:
    """Whether it will; the long forms are not run where they are not asked for."""
    left_out = "not slow" in item.config.option.markexpr
    is_slow = item.get_closest_marker("slow") is not None
    return item.get_closest_marker("spark") is not None and not (is_slow and left_out)


@pytest.fixture(scope="session")
def analyst() -> Iterator[SparkReader]:
    """A Spark with Delta that is nobody's but the tables' owner's, for all modules."""
    reader = SparkReader()
    yield reader
    reader.close()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a module leaves open is an error of its own last test.

    What the collector finds unclosed fails the test that runs just then. So it looks
    here, when fixtures are torn down and let go, and before the next module begins.
    """
    if ends_module(item, nextitem):
        getattr(item, "funcargs", {}).clear()
        gc.collect()
        collect_unraisable(item.config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, Any, Any]:
    """What a library has left behind in a story is no twin's fault."""
    result = yield
    if folder(item) in OTHERS_CODE and ends_module(item, nextitem):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forget_opened()
            gc.collect()
    return result


def ends_module(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    return nextitem is None or nextitem.path != item.path


def folder(item: pytest.Item) -> str:
    """The part of the suite that a test is in."""
    parts = item.nodeid.split("/")
    return parts[1] if len(parts) > 2 else ""
