"""Levels of loggers, changed while they are used."""

import io
import re
from pathlib import Path

import pytest
import structlog

from broker.runtime.process.levels import (
    OF_BROKER,
    OF_COMPACTOR,
    OF_PLANE,
    ROOT,
    LeveledLogger,
    Levels,
    NamedLogger,
)

ROOT_OF_ALL = Path(__file__).parents[4]
BROKER = ROOT_OF_ALL / "broker"


@pytest.fixture
def said():
    return io.StringIO()


@pytest.fixture
def levels():
    return Levels("info")


def logger(name, levels, said):
    processors = [lambda _logger, method, event: f"{method} {event['event']}"]
    return LeveledLogger(NamedLogger(name, levels, said.write), processors, {})


def say_all(log):
    for method in ("debug", "info", "warning", "error"):
        getattr(log, method)(method)
    log.log(20, "by number")
    log.log(5, "below all")


def test_a_logger_says_its_level_and_above(levels, said):
    say_all(logger("lakelog.a", levels, said))
    assert said.getvalue().splitlines() == [
        "info info",
        "warning warning",
        "error error",
        "info by number",
    ]


def test_what_is_critical_is_said_at_every_level(levels, said):
    levels.change("lakelog.a", "error")
    logger("lakelog.a", levels, said).critical("a table cannot be synced")
    assert said.getvalue() == "critical a table cannot be synced\n"


def test_a_logger_has_every_method_that_the_sources_call():
    """structlog's own class has more, and most tests run with that one."""
    called = {
        method
        for package in ("broker", "jobs", "lakehouse", "admin_api")
        for path in (ROOT_OF_ALL / package).rglob("*.py")
        for method in re.findall(r"\blog(?:ger)?\.(\w+)", path.read_text("utf-8"))
    }
    ours = {name for name in vars(LeveledLogger) if not name.startswith("_")}
    assert {"critical", "exception", "warning"} <= called
    of_structlog = set(dir(structlog.make_filtering_bound_logger(0)))
    assert called & of_structlog - {"bind", "unbind", "new"} <= ours


def test_a_change_counts_at_the_next_call_and_for_that_logger_alone(levels, said):
    one, other = (logger(name, levels, said) for name in ("lakelog.a", "lakelog.b"))
    levels.change("lakelog.a", "debug")
    one.debug("one")
    other.debug("other")
    levels.change("lakelog.a", "error")
    one.warning("one")
    assert said.getvalue().splitlines() == ["debug one"]
    assert (levels.name_of("lakelog.a"), levels.name_of("lakelog.b")) == (
        "error",
        "info",
    )


def test_the_root_sets_all(levels):
    levels.change("lakelog.a", "debug")
    levels.change(ROOT, "warning")
    assert levels.name_of("lakelog.a") == levels.name_of("lakelog.b") == "warning"


def test_an_exception_is_an_error_with_its_traceback(levels, said):
    seen = []
    log = LeveledLogger(
        NamedLogger("lakelog.a", levels, said.write),
        [lambda _logger, method, event: seen.append((method, event)) or "x"],
        {},
    )
    log.exception("failed", level="a fact")  # noqa: LOG004 - nothing is raised here
    assert seen == [("error", {"event": "failed", "exc_info": True, "level": "a fact"})]


def test_every_logger_of_the_broker_is_known():
    files = [path for path in BROKER.rglob("*.py") if path.parent.name != "cli"]
    named = {
        name
        for path in files
        for name in re.findall(r'get_logger\("(.*?)"\)', path.read_text())
    }
    assert named == set(OF_BROKER)


@pytest.mark.parametrize(
    ("package", "names"), [("jobs", OF_COMPACTOR), ("admin_api", OF_PLANE)]
)
def test_every_logger_of_another_part_is_known(package, names):
    files = (BROKER.parent / package).rglob("*.py")
    found = {
        name
        for path in files
        for name in re.findall(r'get_logger\("(.*?)"\)', path.read_text())
    }
    assert found == set(names)


def test_a_logger_that_is_reset_says_what_all_say(levels):
    levels.change("lakelog.network", "debug")
    levels.reset("lakelog.network")
    levels.reset("lakelog.lake")  # nobody has changed it
    assert levels.name_of("lakelog.network") == levels.name_of(ROOT) == "info"
