"""Which compactors may be at something that nobody hears of."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from broker.status.file import path_of
from broker.status.schema import CompactorStatus
from jobs.erasing import compactors
from jobs.erasing.compactors import check_all_heard
from jobs.erasing.table import NotErased
from tests.support.asleep import COMPACTOR, asleep
from tests.support.patience import wait_until
from tests.support.saying import say_as

NOBODY = 1 << 22
"""No process has this number."""


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A data directory."""
    (tmp_path / "catalog.db").touch()
    return tmp_path


@pytest.fixture
def pid(there: Path) -> Iterator[int]:
    """That of a compactor that lives."""
    with asleep(there, *COMPACTOR) as process:
        yield process.pid


def say(data_dir: Path, pid: int, state: str = "running", ago_s: float = 0) -> None:
    """Said so long ago, and by a process that had begun before, unless it is now."""
    say_as(data_dir, CompactorStatus(pid=pid, state=state))
    if ago_s:
        said_s = time.time() - ago_s
        os.utime(path_of(data_dir, CompactorStatus), (said_s, said_s))


@pytest.mark.usefixtures("long_there")
@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        (["/usr/bin/lakelog", "compactor", "--data-dir", "/data"], True),
        (["-mbroker.cli", "compactor"], True),
        (["-X", "pycache_prefix=/lakelog", "-m", "broker.cli", "compactor"], True),
        (["run", "--data-file=/lakelog", "-m", "broker.cli", "compactor"], True),
        (["/usr/bin/python-lakelog", "/usr/bin/lakelog", "compactor"], True),
        (["/lakelog", "-m", "broker.cli", "compactor"], True),
        (["-m", "broker.cli", "broker"], False),
        (["broker.cli", "erase", "--data-dir=/lakelog", "compactor"], False),
        (["/usr/bin/lakelog", "compact", "lakelog", "compactor"], False),
        (["/usr/bin/lakelog", "up"], False),
        (["/usr/bin/lakelog", "erase", "compactor", "--key", "a"], False),
        (["/usr/bin/lakelog", "erase", "--data-dir", "/lakelog", "compactor"], False),
        (["compactor"], False),
    ],
)
def test_only_a_compactor_is_taken_for_one(
    there: Path, words: list[str], *, is_one: bool
) -> None:
    with asleep(there, *words) as process:
        say(there, process.pid, ago_s=60)
        if is_one:
            with pytest.raises(NotErased, match=rf"\(process {process.pid}\)"):
                check_all_heard(there)
        else:
            check_all_heard(there)


@pytest.mark.usefixtures("long_there")
def test_who_asks_is_none_whatever_his_words_are(
    there: Path, pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(there, NOBODY, ago_s=60)
    with pytest.raises(NotErased):
        check_all_heard(there)
    monkeypatch.setattr(os, "getpid", lambda: pid)
    check_all_heard(there)


@pytest.mark.parametrize(
    ("state", "ago_s"), [("running", 0), ("running", 5), ("stopped", 60)]
)
@pytest.mark.usefixtures("long_there")
def test_one_that_is_heard_is_in_nobodys_way(
    there: Path, pid: int, state: str, ago_s: float
) -> None:
    say(there, pid, state, ago_s)
    check_all_heard(there)


@pytest.mark.parametrize("state", ["running", "stopped"])
@pytest.mark.usefixtures("long_there")
def test_a_second_one_is_named_whatever_the_other_says(
    there: Path, pid: int, state: str
) -> None:
    say(there, NOBODY, state, 5)
    why = f"process {pid} is another compactor of this data directory"
    with pytest.raises(NotErased, match=why):
        check_all_heard(there)


@pytest.mark.usefixtures("long_there")
def test_one_that_hangs_is_named_though_a_second_one_spoke_last(
    there: Path, pid: int
) -> None:
    say(there, NOBODY, ago_s=60)
    with pytest.raises(NotErased, match=re.escape(f"(process {pid}) has said nothing")):
        check_all_heard(there)


@pytest.mark.usefixtures("long_there")
def test_one_of_another_data_directory_is_in_nobodys_way(
    there: Path, pid: int, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "catalog.db").touch()
    say(other, NOBODY, ago_s=60)
    check_all_heard(other)
    say(there, NOBODY, ago_s=60)
    with pytest.raises(NotErased, match=f"process {pid}"):
        check_all_heard(there)


@pytest.mark.usefixtures("pid")
def test_one_that_has_said_nothing_yet_has_done_nothing(there: Path) -> None:
    check_all_heard(there)
    say(there, NOBODY, ago_s=60)
    check_all_heard(there)


@pytest.mark.usefixtures("long_there")
def test_one_that_was_killed_has_ended_before_anybody_has_heard_of_it(
    there: Path,
) -> None:
    """Who started it may be stopped, or be a container's first process."""
    with asleep(there, *COMPACTOR) as process:
        say(there, process.pid, ago_s=60)
        process.kill()
        killed = psutil.Process(process.pid)
        wait_until(lambda: killed.status() == psutil.STATUS_ZOMBIE)
        check_all_heard(there)


def test_when_a_process_began_is_known_to_the_tick(there: Path) -> None:
    """A supervisor may start one anew a tenth of a second behind the last status."""
    before_s = time.time()
    with asleep(there, *COMPACTOR) as process:
        began_s = compactors._began_s(process.pid)
        assert before_s - 0.05 < began_s < time.time() + 0.05


def test_a_pause_between_two_clocks_makes_nobody_begin_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, pauses_s = [1000.0], [0.08, 0.03]

    def clock_gettime(_: int) -> float:
        now_s[0] += pauses_s.pop(0) if pauses_s else 0
        return now_s[0] - 900

    clocks = SimpleNamespace(
        time=lambda: now_s[0], clock_gettime=clock_gettime, CLOCK_BOOTTIME=7
    )
    monkeypatch.setattr(compactors, "time", clocks)
    assert compactors._boot_s() == pytest.approx(900, abs=0.001)
    pauses_s += [0.08] * 1000
    assert compactors._boot_s() == pytest.approx(900, abs=0.1), "it goes on"


def test_in_a_container_it_calls_itself_by_the_last_of_its_numbers() -> None:
    status = "Name:\tlakelog\nNgid:\t0\nPid:\t4711\nNSpid:\t4711\t7\nNSsid:\t1\t1\n"
    assert compactors._own_number(status) == 7


@pytest.mark.usefixtures("long_there")
def test_one_that_closes_a_file_meanwhile_is_not_passed_over(
    there: Path, pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Path.iterdir
    monkeypatch.setattr(
        Path, "iterdir", lambda path: iter([path / "closed", *listed(path)])
    )
    say(there, NOBODY, ago_s=60)
    with pytest.raises(NotErased, match=f"process {pid}"):
        check_all_heard(there)
