"""What the sampler changes, and what it leaves alone."""

from pathlib import Path

import pytest

from infra.mutants import main, mutants, mutated, sample

SOURCE = '''"""A docstring of 1."""
log = get_logger(1)


@dataclass(slots=True)
class Plain:
    """One with no code."""


def at_most(count: "1") -> "2":
    """Another."""
    log.info("seen", count=1)
    if count <= 10 and count is not None:
        told.append(count)
    return True
'''


def test_each_change_is_made_in_its_place() -> None:
    found = {mutant.what: mutant for mutant in mutants("a.py", SOURCE)}
    expected = {
        "Lt for LtE": "count < 10",
        "Is for IsNot": "count is None",
        "and/or": "count <= 10 or count",
        "condition negated": "if not (count <= 10",
        "11 for 10": "count <= 11",
        "False for True": "return False",
        "left out": "pass",
    }
    assert found.keys() == expected.keys()
    for what, text in expected.items():
        assert text in mutated(SOURCE, found[what].index), what


def test_a_change_is_only_one() -> None:
    plain = len(SOURCE.split())
    for mutant in mutants("a.py", SOURCE):
        assert abs(len(mutated(SOURCE, mutant.index).split()) - plain) <= 3


def test_a_file_is_sampled_as_a_package_is(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("def f(a, b):\n    return a < b\n")
    [of_file] = sample(tmp_path, "one.py", 5, 0)
    assert [of_file] == sample(tmp_path, ".", 5, 0)


def test_a_place_without_code_is_refused_and_not_counted_as_well_tested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["mutants", "broker/lgo"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "no code to change in broker/lgo" in capsys.readouterr().err
