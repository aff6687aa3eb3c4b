"""Tests in a random order that a seed repeats.

Folders, the modules of a folder and the tests of a module change places, each only
among its own: what a module's or a package's tests share is still made once.
"""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def shuffled(
    items: Sequence[Item], node_id: Callable[[Item], str], seed: int
) -> list[Item]:
    """``items`` in the order of ``seed``; ``node_id`` is ``folder/module.py::test``."""
    chance = random.Random(seed)
    ranks: dict[str, float] = {}

    def rank(item: Item) -> tuple[float, ...]:
        module = node_id(item).partition("::")[0]
        folder = module.rpartition("/")[0]
        for name in (folder, module):
            ranks.setdefault(name, chance.random())
        return ranks[folder], ranks[module], chance.random()

    return sorted(items, key=rank)
