"""Where the sources are, for the tests that read them."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("broker", "lakehouse", "jobs", "admin_api", "infra")
GENERATED = ROOT / "broker" / "protocol" / "messages"


def python_files(*tops: str) -> Iterator[Path]:
    """Every Python file below the named top-level folders, generated ones left out."""
    for top in tops:
        for path in sorted((ROOT / top).rglob("*.py")):
            if GENERATED not in path.parents:
                yield path


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function's name and its length in lines, docstring left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, _length(node)


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        assert first.end_lineno is not None
        lines -= first.end_lineno - first.lineno + 1
    return lines
