"""The README says what is so."""

import re

from infra.api_table import README, with_table
from tests.architecture.sources import ROOT


def test_the_table_of_apis_is_that_of_the_registry():
    text = README.read_text()
    assert text == with_table(text), "run python -m infra.api_table"


def test_every_package_has_a_readme_and_links_lead_somewhere():
    for place in (ROOT, *(p.parent for p in ROOT.glob("*/README.md"))):
        text = (place / "README.md").read_text()
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (place / target).exists(), f"{place.name}/README.md: {target}"
