"""Steps that ask a registry: bounded, and no failure when it gives nothing."""

import time

import psutil
import pytest

from tests.support.foreign import fetched, within
from tests.support.patience import wait_until


def test_a_step_that_ends_gives_its_code_and_what_it_said(tmp_path):
    code, said = within("sh", "-c", "echo one; echo two >&2; exit 3", cwd=tmp_path)
    assert code == 3
    assert sorted(said.split()) == ["one", "two"]


def test_a_step_that_takes_too_long_is_a_skip_and_leaves_no_child(tmp_path):
    child = tmp_path / "child"
    words = f"sleep 600 & echo $! > {child}; wait"
    before = time.monotonic()
    for limit_s in (2, 20, 200):
        why = f"sh took longer than {limit_s} s"
        with pytest.raises(pytest.skip.Exception, match=why):
            within("sh", "-c", words, cwd=tmp_path, limit_s=limit_s)
        if child.exists() and child.read_text():
            break  # else it was killed before it had one
    assert time.monotonic() - before < 500
    wait_until(lambda: not running(int(child.read_text())))


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_registry_that_gives_nothing_is_a_skip(tmp_path):
    with pytest.raises(pytest.skip.Exception, match="npm gave nothing: no route"):
        fetched("npm", "sh", "-c", "echo no route; exit 1", cwd=tmp_path)


def test_a_registry_that_gives_is_none(tmp_path):
    fetched("npm", "touch", "it", cwd=tmp_path)
    assert (tmp_path / "it").exists()
