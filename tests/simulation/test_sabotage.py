"""The simulation finds what it is for: defects that were mended are put back.

Each is looked for with the clients and faults that it takes, and found within some
seeds; without it the same seed is sound. Beside them are faults that nobody made yet:
what an engineer of Kafka would break first.
"""

from pathlib import Path

import pytest

from tests.simulation.hunts import HUNTS

HERE = Path(__file__).parent


def test_the_readmes_say_how_many_defects_are_hunted():
    hunts, defects = len(HUNTS), len({hunt.defect for hunt in HUNTS.values()})
    assert f"{hunts} hunts for {defects} defects" in (HERE / "README.md").read_text()
    of_all = (HERE.parent / "README.md").read_text()
    assert f"{defects} planted defects" in of_all
    assert f"{hunts} hunts of" in of_all


@pytest.mark.parametrize("name", HUNTS)
def test_a_defect_that_is_put_back_is_found(name):
    hunt = HUNTS[name]
    for seed in hunt.seeds:
        with hunt.defect():
            found = hunt.play(seed).violation
        if found:
            break
    assert found, f"not in {hunt.seeds}"
    sound = hunt.play(seed)
    assert sound.violation is None, f"seed {seed}: {sound.violation}"
