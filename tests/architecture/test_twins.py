"""Every file of the pure packages has its test file, in the mirrored place."""

import pytest

from tests.architecture.sources import ROOT, name_of, python_files

PURE = tuple(
    f"broker/{name}" for name in ("log", "groups", "topics", "records", "timing")
)


def _twin_wanted() -> list:
    return [path for path in python_files(*PURE) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", _twin_wanted(), ids=name_of)
def test_a_pure_file_has_its_twin(path):
    twin = ROOT / "tests" / path.relative_to(ROOT).parent / f"test_{path.name}"
    assert twin.exists(), f"write {name_of(twin)}"
