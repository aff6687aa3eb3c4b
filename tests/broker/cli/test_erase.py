"""What ``lakelog erase`` says, without running parts."""

import json
from pathlib import Path

import pytest

from tests.jobs.erasing.scene import PERSON, Scene
from tests.jobs.world import World
from tests.support.process import told

USAGE = "one of --key, --key-hex and --where says what to erase"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    world = World(tmp_path)
    Scene(world).put([b"a", PERSON, PERSON])
    world.close()
    return tmp_path


@pytest.mark.parametrize("words", [(), ("--key", "a", "--where", "true")])
def test_what_to_erase_is_said_once(data_dir: Path, words: tuple[str, ...]) -> None:
    done = told("erase", "people", *words, "--data-dir", str(data_dir))
    assert (done.code, done.output) == (2, "")
    assert USAGE in done.errors


def test_a_dry_run_tells_counts_by_partition(data_dir: Path) -> None:
    place = ("--dry-run", "--json", "--data-dir", str(data_dir))
    for words in (("--key", PERSON.decode()), ("--key-hex", PERSON.hex())):
        done = told("erase", "people", *words, *place)
        assert (done.code, done.errors) == (0, "")
        [one] = json.loads(done.output)
        assert (one["rows"], one["older_files"], one["not_in_table"]) == (2, 0, 0)


def test_what_is_no_key_and_no_topic_is_told(data_dir: Path, tmp_path: Path) -> None:
    place = ("--dry-run", "--data-dir", str(data_dir))
    odd = told("erase", "people", "--key-hex", "xyz", *place)
    assert (odd.code, "is not in hexadecimal digits" in odd.errors) == (2, True)
    none = told("erase", "nobody", "--key", "a", *place)
    assert none.code == 1
    assert "there is no topic 'nobody'" in none.errors
    elsewhere = told("erase", "t", "--key", "a", "--data-dir", str(tmp_path / "no"))
    assert "is not a data directory" in elsewhere.errors


def test_without_a_broker_nothing_is_erased(data_dir: Path) -> None:
    done = told("erase", "people", "--key", "a", "--data-dir", str(data_dir))
    assert (done.code, done.output) == (1, "")
    assert done.errors.startswith("lakelog: no broker runs on")
