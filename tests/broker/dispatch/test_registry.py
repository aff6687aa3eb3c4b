"""What is served is what was found, and a mistake is told at start."""

import sys
from pathlib import Path

import pytest

from broker.dispatch.registry import Listed, Registry, serves
from broker.protocol.api_keys import ApiKey

HANDLER = """
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey

@serves(ApiKey.{key}, versions={versions}{more})
def {name}(request, context):
    return None
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "some_apis"
    root.mkdir()
    (root / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [n for n in sys.modules if n.startswith("some_apis")]:
        del sys.modules[name]
    return root


def write(
    root: Path, file: str, key: str, versions: str, more: str = "", name: str = ""
) -> None:
    text = HANDLER.format(key=key, versions=versions, more=more, name=name or file)
    (root / f"{file}.py").write_text(text)


def test_handlers_are_found_and_listed_by_key(package: Path) -> None:
    write(package, "metadata", "METADATA", "(0, 13)")
    write(package, "produce", "PRODUCE", "(3, 13)")
    (package / "_shared.py").write_text("VALUE = 1\n")
    registry = Registry.discover("some_apis")
    assert registry.listed() == (Listed(0, 3, 13), Listed(3, 0, 13))
    assert registry.pipelined == frozenset()
    found = registry.find(ApiKey.PRODUCE, 3)
    assert found is not None
    assert found.handler.__name__ == "produce"


def test_produces_alone_are_pipelined() -> None:
    assert Registry.discover().pipelined == {ApiKey.PRODUCE}


def test_what_is_not_listed_is_not_served(package: Path) -> None:
    write(package, "produce", "PRODUCE", "(3, 13)")
    registry = Registry.discover("some_apis")
    assert registry.find(ApiKey.PRODUCE, 2) is None
    assert registry.find(ApiKey.PRODUCE, 14) is None
    assert registry.find(ApiKey.FETCH, 4) is None


@pytest.mark.parametrize(
    ("file", "key", "name"),
    [("produce", "FETCH", "produce"), ("produce", "PRODUCE", "handle")],
)
def test_file_key_and_function_have_one_name(
    package: Path, file: str, key: str, name: str
) -> None:
    write(package, file, key, "(0, 1)", name=name)
    with pytest.raises(AssertionError):
        Registry.discover("some_apis")


def test_a_file_has_one_handler(package: Path) -> None:
    (package / "produce.py").write_text("")
    with pytest.raises(AssertionError, match="0 handlers"):
        Registry.discover("some_apis")


def test_no_key_is_served_twice() -> None:
    @serves(ApiKey.FETCH, versions=(4, 18))
    def fetch(request: object, context: object) -> None: ...

    served = fetch.__dict__["served"]
    with pytest.raises(AssertionError, match="twice"):
        Registry([served, served])


@pytest.mark.parametrize("versions", [(3, 2), (-1, 2)])
def test_versions_are_a_range(versions: tuple[int, int]) -> None:
    with pytest.raises(AssertionError):
        serves(ApiKey.FETCH, versions=versions)


def test_the_brokers_own_handlers_are_in_order() -> None:
    listed = Registry.discover().listed()
    keys = [entry.key for entry in listed]
    assert keys == sorted(set(keys))
    for entry in listed:
        assert entry.min_version <= entry.max_version
        defined = ApiKey(entry.key).versions
        assert entry.min_version in defined
        assert entry.max_version in defined


def test_what_has_a_switch_is_served_when_it_is_on(package: Path) -> None:
    write(package, "fetch", "FETCH", "(0, 1)", ', switch="warp"')
    write(package, "metadata", "METADATA", "(0, 1)")
    assert [one.key for one in Registry.discover("some_apis").listed()] == [3]
    switched = Registry.discover("some_apis", switches=("warp",))
    assert [one.key for one in switched.listed()] == [1, 3]
