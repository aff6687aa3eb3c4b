"""Every source file has its test file in the mirrored place, or a reason on a list.

The list only shrinks: who gives a file its twin takes it off, and a new file is not put
on it.
"""

import ast
from pathlib import Path

from tests.architecture.sources import ROOT, name_of, python_files

PACKAGES = ("broker", "lakehouse", "jobs", "admin_api")

DECLARATIONS = "it declares, and decides nothing"
BY_CALLERS = "its callers' twins run all of it"
BY_JOURNEYS = "the journeys run it as a program"
BY_CRASHES = "the crash suite and its users' twins run it; it owes a twin"

WITHOUT_TWIN = {
    "broker/catalog/errors.py": DECLARATIONS,
    "broker/catalog/schema.py": DECLARATIONS,
    "broker/cli/app.py": BY_JOURNEYS,
    "broker/cli/client.py": BY_JOURNEYS,
    "broker/cli/config.py": BY_JOURNEYS,
    "broker/cli/groups.py": BY_JOURNEYS,
    "broker/cli/topics.py": BY_JOURNEYS,
    "broker/clock.py": BY_CALLERS,
    "broker/failpoints.py": BY_CRASHES,
    "broker/lake/table.py": BY_CALLERS,
    "broker/protocol/buffers.py": BY_CALLERS,
    "broker/runtime/operations.py": DECLARATIONS,
    "broker/runtime/ports.py": DECLARATIONS,
    "broker/runtime/services.py": DECLARATIONS,
    "broker/storage/segment.py": DECLARATIONS,
    "lakehouse/errors.py": DECLARATIONS,
    "lakehouse/new_file.py": BY_CALLERS,
    "lakehouse/properties.py": DECLARATIONS,
    "lakehouse/schema.py": DECLARATIONS,
    "jobs/check_report.py": DECLARATIONS,
    "jobs/check_segments.py": BY_CALLERS,
    "jobs/check_tables.py": BY_CALLERS,
    "jobs/daemon.py": BY_JOURNEYS,
    "admin_api/app.py": BY_CALLERS,
    "admin_api/dependencies.py": BY_CALLERS,
    "admin_api/server.py": BY_JOURNEYS,
}
MOST = 26
"""How many there are: who takes one off lowers it, so the list gets no longer."""

DATA = ROOT / "broker" / "protocol" / "definitions"
"""Kafka's message definitions: data, held against the golden bytes as a whole."""


def _twin_of(name):
    path = ROOT / name
    return ROOT / "tests" / path.relative_to(ROOT).parent / f"test_{path.name}"


def _sources():
    unnamed = ("__init__.py", "__main__.py")
    return [
        path
        for path in python_files(*PACKAGES)
        if path.name not in unnamed and path.parent != DATA
    ]


def test_each_file_has_its_twin():
    names = [name_of(path) for path in _sources()]
    missing = [_twin_of(name) for name in names if name not in WITHOUT_TWIN]
    there = [name for name in WITHOUT_TWIN if _twin_of(name).exists()]
    assert names
    assert not [name_of(twin) for twin in missing if not twin.exists()], "write them"
    assert not there, "these have their twin: take them off the list"


def test_the_list_only_gets_shorter():
    assert len(WITHOUT_TWIN) == MOST


def _imported(path):
    """The names of all that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module, names):
                yield from (f"{module}.{alias.name}" for alias in names)


def test_no_test_module_imports_from_another():
    """What two of them need is in ``tests/support``."""
    assert "tests.architecture.sources.ROOT" in _imported(Path(__file__))
    wrong = [
        (name_of(path), name)
        for path in python_files("tests")
        for name in _imported(path)
        if name.startswith("tests") and ".test_" in name
    ]
    assert not wrong
