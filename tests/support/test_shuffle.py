"""Orders of tests: new for each seed, the same for one, and grouped."""

from itertools import groupby

from tests.support.shuffle import shuffled

IDS = [
    f"tests/{folder}/test_{module}.py::test_{number}"
    for folder in ("a", "b", "c/d")
    for module in range(4)
    for number in range(5)
]


def order(seed: int) -> list[str]:
    return shuffled(IDS, str, seed)


def test_a_seed_repeats_its_order_and_another_has_its_own() -> None:
    assert order(1) == order(1)
    assert sorted(order(1)) == sorted(IDS)
    assert len({tuple(order(seed)) for seed in range(5)}) == 5


def test_modules_and_folders_stay_together() -> None:
    for seed in range(20):
        modules = [key for key, _ in groupby(order(seed), lambda i: i.split("::")[0])]
        assert len(modules) == len(set(modules))
        folders = [key for key, _ in groupby(modules, lambda m: m.rpartition("/")[0])]
        assert len(folders) == len(set(folders))


def test_tests_of_a_module_change_places() -> None:
    first = [name for name in order(1) if name.startswith("tests/a/test_0.py")]
    assert any(
        [name for name in order(seed) if name.startswith("tests/a/test_0.py")] != first
        for seed in range(2, 6)
    )
