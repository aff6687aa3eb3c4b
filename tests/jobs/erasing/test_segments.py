"""The broker is asked to let go of the log's files, and not only believed."""

import threading
from contextlib import closing
from pathlib import Path

import pytest

from broker.catalog import renewals
from broker.status.schema import BrokerStatus
from jobs.erasing.segments import broker_runs, renew
from jobs.extent import Extents
from tests.jobs.erasing.scene import PERSON, Scene
from tests.jobs.world import World
from tests.support.patience import wait_until
from tests.support.saying import say_as


@pytest.fixture
def scene(world: World) -> Scene:
    made = Scene(world)
    made.put([PERSON])
    return made


def asked(scene: Scene, timeout_s: float) -> list[str]:
    with closing(Extents(scene.world.data_dir)) as extents:
        return renew(scene.world.data_dir, extents, timeout_s)


def answer(scene: Scene) -> None:
    """As a broker does that believes to have done it."""
    catalog = scene.world.catalog
    wait_until(lambda: catalog.read(renewals.pending) is not None)
    number = catalog.read(renewals.pending)
    assert number is not None
    catalog.change(lambda c: renewals.done(c, number, 1))


def test_files_that_stay_are_told(scene: Scene) -> None:
    [sentence] = asked(scene, 0.1)
    assert sentence.startswith("segment files of before are still there (segment-0")
    assert "the broker has not let them go" in sentence


def test_nobody_is_only_believed(scene: Scene) -> None:
    helper = threading.Thread(target=answer, args=(scene,))
    helper.start()
    [sentence] = asked(scene, 30)
    helper.join()
    assert "are still there" in sentence


def test_what_was_put_aside_as_damaged_is_told(scene: Scene) -> None:
    wal = scene.world.data_dir / "wal"
    (wal / "damaged-4.log").write_bytes(b"x")
    assert "wal/damaged-4.log was put aside as damaged: delete it" in asked(scene, 0.1)


def test_why_records_are_late_is_told(scene: Scene) -> None:
    scene.world.produce(scene.topic, scene.world.produced[scene.topic.number, 0][:1])
    [sentence] = asked(scene, 0.1)
    assert "not in the tables after 0.1 s: people" in sentence


def test_a_broker_runs_if_it_says_so(tmp_path: Path) -> None:
    assert not broker_runs(tmp_path)
    say_as(tmp_path, BrokerStatus(state="serving"))
    assert broker_runs(tmp_path)
    say_as(tmp_path, BrokerStatus(state="stopping"))
    assert not broker_runs(tmp_path)
