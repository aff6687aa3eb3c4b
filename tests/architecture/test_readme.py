"""The README says what is so."""

import re
from fnmatch import filter as matching
from pathlib import Path

import pytest

from infra import clients_table
from infra.api_table import README, with_table
from tests.architecture.sources import PACKAGES, ROOT, name_of, python_files

UNNAMED = {"__init__", "__main__", "conftest"}


def test_the_table_of_apis_is_that_of_the_registry():
    text = README.read_text()
    assert text == with_table(text), "run python -m infra.api_table"


def test_the_table_of_clients_is_what_their_journeys_found():
    text = README.read_text()
    same = text == clients_table.with_table(text)
    assert same, "run python -m infra.clients_table"


def test_every_package_has_a_readme_and_links_lead_somewhere():
    packages = [ROOT / top for top in (*PACKAGES, "tests")]
    packages += [path.parent for path in (ROOT / "broker").glob("*/__init__.py")]
    for place in (ROOT, *packages):
        text = (place / "README.md").read_text()
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (place / target).exists(), f"{place.name}/README.md: {target}"


def _maps() -> list[Path]:
    """The READMEs that map a package, file by file."""
    return [
        readme
        for top in (*PACKAGES, "tests")
        for readme in sorted((ROOT / top).rglob("README.md"))
    ]


@pytest.mark.parametrize("readme", _maps(), ids=name_of)
def test_a_readme_names_every_file_of_its_package_and_no_other(readme: Path) -> None:
    text = readme.read_text()
    named = set(re.findall(r"(?:[\w*]+/)*([\w*]+)\.py\b", text))
    said = named | set(re.findall(r"`(\w+)`", text))
    there = {path.stem for path in readme.parent.glob("*.py")} - UNNAMED
    there -= {name for name in there if name.startswith("test_")}  # they may be named
    mapped = {name for one in said for name in matching(there, one)}
    assert there == mapped
    anywhere = {path.stem for path in python_files(*PACKAGES, "tests")}
    assert not [one for one in named if not matching(anywhere, one)]


def test_the_readme_of_the_tests_names_each_of_their_folders() -> None:
    tests = ROOT / "tests"
    named = re.findall(r"^\|(.*?)\|", (tests / "README.md").read_text(), re.MULTILINE)
    there = {path.parent.name for path in tests.glob("*/__init__.py")}
    assert set(re.findall(r"`(\w+)/`", "".join(named))) == there
