"""What the sampler changes, and what it leaves alone."""

from infra.mutants import mutants, mutated

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
