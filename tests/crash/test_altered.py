"""What the crash suite alters is altered in the programs that it runs."""

import os
import sys
import types

import pytest

from tests.crash import altered
from tests.support import nursery
from tests.support.patience import IDLE_S

PROGRAM = """
from jobs import driver
from tests.crash import altered
altered.in_process()
print(type(driver.make_session("local[1]", "none")).__name__, end="")
"""


@pytest.fixture
def modules(monkeypatch):
    """One that defines ``work``, and one that has imported it from there."""
    found = [
        types.ModuleType(name) for name in ("jobs.defines_it", "jobs.has_imported_it")
    ]
    exec("def work(): return 'as it is'", found[0].__dict__)
    found[1].work = found[0].work
    for module in found:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return found


def test_a_function_is_altered_for_whoever_has_imported_it_already(modules):
    altered.instead(modules[0], "work", lambda: "altered")
    assert [module.work() for module in modules] == ["altered", "altered"]


def test_what_a_module_has_from_elsewhere_is_altered_there_alone(modules):
    altered.instead(modules[1], "work", lambda: "altered")
    assert [module.work() for module in modules] == ["as it is", "altered"]


def test_nothing_is_altered_that_is_not_there(modules):
    with pytest.raises(AssertionError, match="has no wrok"):
        altered.instead(modules[0], "wrok", lambda: "altered")


def test_a_compactor_without_spark_starts_none_in_a_fork_that_has_it_imported(
    tmp_path, monkeypatch
):
    (tmp_path / "makes_one.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    done = nursery.run(["makes_one"], dict(os.environ), b"", IDLE_S)
    assert done.stdout == b"Session"
