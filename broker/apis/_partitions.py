"""Going through topics and their partitions: APIs that answer for each partition."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from broker.dispatch.turns import ITEMS_A_TURN, Steps

T = TypeVar("T")
P = TypeVar("P")
A = TypeVar("A")


def each_in_turns(
    topics: Iterable[T],
    partitions: Callable[[T], Sequence[P]],
    answer: Callable[[T, P], A],
) -> Steps[list[tuple[T, list[A]]]]:
    """Return each topic with the answers for its partitions, in their order."""
    answered: list[tuple[T, list[A]]] = []
    looked_at = 0
    for topic in topics:
        answers: list[A] = []
        answered.append((topic, answers))
        for asked in (None, *partitions(topic)):
            if asked is not None:
                answers.append(answer(topic, asked))
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
    return answered
