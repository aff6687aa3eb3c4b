"""Samples mutants: how many small faults in the code do its tests notice?

``python -m infra.mutants broker/log broker/groups --count 40 --seed 1`` changes one
place of one file at a time (a comparison turned, a condition negated, a statement left
out, a number moved by one, ``and`` for ``or``), runs the twin of that file, then the
tests of its package, and tells the share of mutants that die in each package and each
one that lives. A run that takes many times as long as without the fault is a death.

Everything happens in a copy of the working tree. What cannot change behaviour is left
alone: docstrings, annotations, what is only logged, and how a dataclass is made.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

COPIED = ("broker", "lakehouse", "jobs", "admin_api", "tests", "infra")
TESTS = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
NOT_SLOW = ["-m", "not slow and not spark and not crash"]
BASE_TIMEOUT_S = 1200.0

TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
PLAIN = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Delete)


class Mutant(NamedTuple):
    """One change: of the ``index``-th node of a file, as ``ast.walk`` counts."""

    path: str
    index: int
    line: int
    what: str


# What can be changed


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a file."""
    tree = ast.parse(source)
    silent = set(_silent(tree))
    for index, node in enumerate(ast.walk(tree)):
        if id(node) not in silent and (change := change_of(node)) is not None:
            yield Mutant(path, index, getattr(node, "lineno", 0), change[0])


def change_of(node: ast.AST) -> tuple[str, Callable[[], None]] | None:
    """What can be changed in a node, and the change; None if nothing can."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in TURNED:
            turned = TURNED[type(operator)]()
            names = type(operator).__name__, type(turned).__name__
            return " for ".join(names[::-1]), lambda: _put(node, "ops", [turned])
        case ast.If() | ast.While() | ast.IfExp():
            negated = ast.UnaryOp(ast.Not(), node.test)
            return "condition negated", lambda: _put(node, "test", negated)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            return "and/or", lambda: _put(node, "op", other)
        case ast.Constant(value=bool(value)):
            return f"{not value} for {value}", lambda: _put(node, "value", not value)
        case ast.Constant(value=int(number)):
            return f"{number + 1} for {number}", lambda: _put(node, "value", number + 1)
        case _ if isinstance(node, PLAIN):
            return "left out", lambda: None
    return None


def _put(node: ast.AST, field: str, value: object) -> None:
    setattr(node, field, value)


def _silent(tree: ast.AST) -> Iterator[int]:
    """Ids of nodes whose change nobody could see, or that are not code."""
    for node in ast.walk(tree):
        quiet: list[ast.AST | None] = []
        match node:
            case ast.Expr(value=ast.Constant()):
                quiet = [node]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name("log")))):
                quiet = [node]
            case ast.Assign(targets=[ast.Name("__slots__" | "log")]):
                quiet = [node]
            case ast.ClassDef():
                quiet = list(node.decorator_list)
            case ast.AnnAssign():
                quiet = [node.annotation]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                arguments = ast.walk(node.args)
                quiet = [a.annotation for a in arguments if isinstance(a, ast.arg)]
                quiet.append(node.returns)
        yield from (id(below) for one in quiet if one for below in ast.walk(one))


def mutated(source: str, index: int) -> str:
    """The source with the node of that index changed."""
    tree = ast.parse(source)
    node = next(one for at, one in enumerate(ast.walk(tree)) if at == index)
    change = change_of(node)
    assert change is not None
    change[1]()
    if change[0] == "left out":
        tree = _Without(node).visit(tree)
    return ast.unparse(ast.fix_missing_locations(tree))


class _Without(ast.NodeTransformer):
    """Puts ``pass`` in the place of one statement."""

    def __init__(self, left_out: ast.AST) -> None:
        self._left_out = left_out

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if node is self._left_out:
            return ast.Pass()
        return super().generic_visit(node)


# What notices it


class House:
    """A copy of the working tree, in which tests run with one file changed."""

    def __init__(self, root: Path, copy: Path) -> None:
        self._copy = copy
        self._usual_s: dict[str, float] = {}
        shutil.copy(root / "pyproject.toml", copy)
        for name in COPIED:  # with what numba compiled, which takes a minute
            ignored = shutil.ignore_patterns("*.pyc")
            shutil.copytree(root / name, copy / name, ignore=ignored)

    def notices(self, mutant: Mutant) -> bool:
        """Whether the tests of the file, or of its package, fail or do not end."""
        for tests in self.tests_of(mutant.path):
            if tests not in self._usual_s:
                began = time.monotonic()
                if not self._pass(tests, BASE_TIMEOUT_S):
                    raise SystemExit(f"{tests} fails without any fault")
                self._usual_s[tests] = time.monotonic() - began
            if not self._passes_with(mutant, tests):
                return True
        return False

    def _passes_with(self, mutant: Mutant, tests: str) -> bool:
        """Whether the tests pass in good time in spite of the fault."""
        path = self._copy / mutant.path
        source, stamp = path.read_text(), path.stat()
        try:
            path.write_text(mutated(source, mutant.index))
            return self._pass(tests, 10 * self._usual_s[tests] + 60)
        finally:
            path.write_text(source)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    def tests_of(self, path: str) -> list[str]:
        """The twin of a file, if it has one, and the tests of its package."""
        folder, _, name = path.rpartition("/")
        found = [f"tests/{folder}/test_{name}", f"tests/{folder}"]
        return [one for one in found if (self._copy / one).exists()]

    def _pass(self, tests: str, timeout_s: float) -> bool:
        quiet = {"PYTHONPATH": str(self._copy), "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen(
            [sys.executable, *TESTS, *NOT_SLOW, tests],
            cwd=self._copy, env=os.environ | quiet, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as running:  # fmt: skip
            try:
                return running.wait(timeout_s) == 0
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, 9)
                return False


def sample(root: Path, package: str, count: int, seed: int) -> list[Mutant]:
    """So many mutants of a package, or of a file, each equally likely."""
    found: list[Mutant] = []
    place = root / package
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        found.extend(mutants(name, path.read_text()))
    return random.Random(seed).sample(found, min(count, len(found)))


def share(noticed: list[bool]) -> str:
    """As in ``36 of 40 died: 90%``."""
    died, count = sum(noticed), len(noticed)
    return f"{died} of {count} died: {died / max(count, 1):.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--count", type=int, default=40, help="of each package")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    root = Path(__file__).parents[1]
    samples = {
        package: sample(root, package, arguments.count, arguments.seed)
        for package in arguments.packages
    }
    if empty := [package for package, found in samples.items() if not found]:
        parser.error(f"there is no code to change in {', '.join(empty)}")
    died: dict[str, list[bool]] = {}
    with tempfile.TemporaryDirectory() as folder:
        house = House(root, Path(folder))
        for package, found in samples.items():
            died[package] = []
            for mutant in found:
                died[package].append(house.notices(mutant))
                word = "died " if died[package][-1] else "LIVES"
                print(f"{word} {mutant.path}:{mutant.line} {mutant.what}", flush=True)
            print(f"{package}: {share(died[package])}", flush=True)
    print(f"all: {share([one for each in died.values() for one in each])}")


if __name__ == "__main__":
    main()
