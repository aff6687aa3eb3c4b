"""A share of the stories that are many, long and alike: each seed has its own.

``@pytest.mark.shared_out("kills", 4)`` says that a test is one of a kind, of which one
in four runs in ``make test``. Which ones, the order's seed decides: it changes with the
text of the tests, so each change of them takes another share, the same on every
machine. What is left out, and what is slow, is run by ``make test-long``, and all of it
by ``make test-all``, or where pytest is called by hand.

With ``whole=True`` the tests of a module stay together: they share what took long to
make. Each kind has one story at least, however few there are.
"""

import random
from collections.abc import Iterable
from typing import Final, NamedTuple

import pytest

MARK: Final = "shared_out"
ALL, SHARE, REST = "all", "share", "rest"


class Story(NamedTuple):
    """What runs or is left out as one: a test, or a module, by its name."""

    name: str
    kind: str
    one_in: int


def chosen(stories: Iterable[Story], seed: int) -> dict[str, set[str]]:
    """Kind -> names of the stories that this seed runs.

    Of each kind one in so many, rounded up. Raises ValueError where a kind's stories do
    not agree on how many.
    """
    names: dict[str, set[str]] = {}
    one_in: dict[str, int] = {}
    for story in stories:
        names.setdefault(story.kind, set()).add(story.name)
        if one_in.setdefault(story.kind, story.one_in) != story.one_in:
            raise ValueError(
                f"{story.name}: of {story.kind}, which is shared otherwise"
            )
    found = {}
    for kind, alike in names.items():
        chance = random.Random(f"{seed} {kind}")
        count = -(-len(alike) // one_in[kind])
        found[kind] = set(chance.sample(sorted(alike), count))
    return found


class Shares:
    """Takes out of what was collected what this run does not run, and tells it."""

    def __init__(self, config: pytest.Config) -> None:
        self._runs, self._seed = config.option.stories, config.option.seed
        self._told = ""

    def pytest_report_header(self) -> str:
        run = {
            ALL: "all",
            SHARE: f"a share, by --seed {self._seed}; the others: make test-long",
            REST: f"those that the share of --seed {self._seed} leaves out",
        }
        return f"stories: {run[self._runs]}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if self._runs == ALL:
            return
        found = {item: story for item in items if (story := story_of(item))}
        runs = chosen(found.values(), self._seed)
        short = [
            item
            for item in items
            if not _is_elsewhere(item)
            and (item not in found or found[item].name in runs[found[item].kind])
        ]
        kept = set(short)
        long = [item for item in items if item not in kept]
        items[:] = short if self._runs == SHARE else long
        config.hook.pytest_deselected(items=long if self._runs == SHARE else short)
        self._told = told(found.values(), runs)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: pytest.Session) -> None:
        """A worker has collected, and this process has not."""
        self._told = getattr(node, "workeroutput", {}).get(MARK, self._told)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[MARK] = self._told

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        if self._told:
            terminalreporter.write_line(f"stories of --seed {self._seed}: {self._told}")


def told(stories: Iterable[Story], runs: dict[str, set[str]]) -> str:
    """How many of each kind run in the short form."""
    of_all: dict[str, set[str]] = {}
    for story in stories:
        of_all.setdefault(story.kind, set()).add(story.name)
    return ", ".join(
        f"{len(runs[kind])} of {len(names)} {kind}"
        for kind, names in sorted(of_all.items())
    )


def story_of(item: pytest.Item) -> Story | None:
    """What a test belongs to; None: it is no story that is shared out, or is run
    elsewhere anyway."""
    mark = item.get_closest_marker(MARK)
    if mark is None or _is_elsewhere(item):
        return None
    kind, one_in = mark.args
    whole = mark.kwargs.get("whole", False)
    return Story(item.nodeid.partition("::")[0] if whole else item.nodeid, kind, one_in)


def _is_elsewhere(item: pytest.Item) -> bool:
    return any(map(item.get_closest_marker, ("slow", "foreign")))
