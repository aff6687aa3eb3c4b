"""What the guide says to type is typed, and what it names is there.

Here blocks marked ``run`` run as they stand, page after page, on one `lakelog up`, and
those marked ``up``: only addresses are other ones. Those marked ``lake`` are typed by
``tests/journeys/test_guide.py``, programs in other languages by
``tests/clients/test_guide_programs.py``; `NOT_TYPED` has the rest.
"""

import re
import sys
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import typer

from admin_api.access.tokens import FILE
from admin_api.app import create_app
from admin_api.snippets.templates import snippets
from broker.cli.app import app
from broker.settings import Settings, keys
from broker.topics.broker_configs import BROKER_CONFIGS
from broker.topics.configs import TOPIC_CONFIGS
from tests.support.guide import FENCE, PAGES, ROOT, Typing, blocks
from tests.support.patience import wait_until
from tests.support.process import BrokerPart, WholePart, lakelog

CALL = re.compile(r"^(?:.*\| |\w+=\S+ )?lakelog( [^\n|]+|$)", re.MULTILINE)
"""As a line's first word, behind a variable, or behind a pipe."""
SAID = ["v1", "v2", "from the shell", "from Python", "from asyncio"]
SNIPPETS = "they are the plane's snippets, which tests/admin_api/snippets runs"
NOT_TYPED = {
    ("configure", 'listener = "127.0.0.1:9092"'): "the file of the block before it",
    ("install", "make up"): "it installs all of this anew, and takes fixed ports",
    (
        "install",
        "docker build --file infra/container/Containerfile --tag lakelog .",
    ): "there is no container engine and no cluster; make lint-infra reads the files",
    ("query", "SELECT partition, offset, timestamp,"): SNIPPETS,
    ("query", "from delta import configure_spark_with_delta_pip"): SNIPPETS,
    ("query", "from deltalake import DeltaTable"): SNIPPETS,
    ("query", "import polars as pl"): SNIPPETS,
    ("query", "import duckdb"): SNIPPETS,
}
"""All blocks of the guide that no test types as they stand, and why."""
PROPERTIES = """\
broker.id=1
listeners=PLAINTEXT://:9092
num.network.threads=3
log.dirs=kafka-logs
num.partitions=1
log.retention.hours=168
zookeeper.connect=localhost:2181
"""
"""As much of a server.properties as Kafka ships."""


def typed(*, stopped):
    """What is to be run on one `lakelog up`, or after it."""
    for block in blocks():
        if "run" in block.marks and ("stopped" in block.marks) == stopped:
            yield block.page, block.language, block.code


def test_each_block_is_typed_by_a_test_or_it_is_said_why_not():
    every = list(blocks())
    assert len({block.name for block in every if not block.marks}) == len(NOT_TYPED)
    assert {block.name for block in every if not block.marks} == NOT_TYPED.keys()
    marks = [block.marks - {"stopped"} for block in every if block.marks]
    assert all(len(one) == 1 for one in marks)
    assert frozenset().union(*marks) == {"run", "lake", "up", "foreign"}


def is_ready(admin: str) -> bool:
    with suppress(HTTPError), urlopen(f"{admin}/readyz") as answer:
        return answer.status == 200
    return False


@pytest.mark.shared_out("pages of the guide", 6)
def test_what_is_to_be_typed_does_what_the_guide_says(tmp_path):
    up = WholePart(tmp_path / "lakelog-data", "groups.initial_rebalance_delay_ms=0")
    up.arguments.append("--no-compactor")
    up.start()
    typing = Typing(tmp_path, up.bootstrap, up.facts["admin"])
    said: dict[str, str] = dict.fromkeys(PAGES, "")
    try:
        wait_until(lambda: is_ready(up.facts["admin"]))
        for name, language, code in typed(stopped=False):
            said[name] += typing.run(language, code)
            (up.data_dir / FILE).unlink(missing_ok=True)  # else the next page needs it
        up.stop()
        for name, language, code in typed(stopped=True):
            said[name] += typing.run(language, code)
    finally:
        up.end()
    assert '"key": "k2", "value": "v2"' in said["install"]
    assert "from the shell" in said["connect"]
    assert len(re.findall(r"^0 b'v1'$", said["connect"], re.MULTILINE)) == 2
    assert said["operate"].count("all is well") == 2
    moved = BrokerPart(tmp_path / "moved")
    moved.start()
    try:
        whole = lakelog(
            "consume", "orders", "--bootstrap", moved.bootstrap, "--exit-at-end"
        )
        groups = lakelog("group", "list", "--bootstrap", moved.bootstrap)
    finally:
        moved.end()
    assert whole.splitlines() == SAID
    assert {"python", "asyncio"} <= set(groups.split())


@pytest.mark.shared_out("pages of the guide", 6)
def test_what_stays_is_started_as_the_guide_says(tmp_path):
    [lines] = [block.code for block in blocks() if block.language == "toml"]
    (tmp_path / "lakelog.toml").write_text(lines)
    (tmp_path / "server.properties").write_text(PROPERTIES)
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    typing = Typing(tmp_path, "127.0.0.1:0", "http://127.0.0.1:0")
    started = 0
    for block in blocks():
        if "up" in block.marks:
            said = typing.run(block.language, block.code)
            wanted = len(re.findall(r"\blakelog up\b", block.code))
            assert said.count("ready kafka=") == wanted, said
            started += wanted
    assert started == 7


def test_the_code_for_tables_is_what_the_plane_gives_out():
    own = {one.code for one in snippets("lakelog-data/tables/orders")}
    shown = {
        code.rstrip("\n")
        for language, _, code in FENCE.findall(PAGES["query"])
        if language != "sh"
    }
    assert shown == own


def commands():
    """Each `lakelog ...` that is named, as its words."""
    for name, text in PAGES.items():
        code = [block[2] for block in FENCE.findall(text) if block[0] == "sh"]
        for piece in (*code, *re.findall(r"`(lakelog [^`\n]+)`", FENCE.sub("", text))):
            for words in CALL.findall(piece):
                yield pytest.param(words.split(), id=f"{name}:{words.strip()}")


@pytest.mark.parametrize("words", list(commands()))
def test_a_command_that_is_named_has_its_words_and_flags(words):
    command = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    flags = {flag for param in command.params for flag in param.opts}
    named = {word for word in words if re.fullmatch(r"-X|--[a-z-]+", word)}
    is_group = hasattr(command, "commands")
    assert not is_group or not words or words[0].startswith("-"), words
    assert named <= flags, (command.name, named - flags)


def test_a_path_of_the_plane_that_is_named_is_served():
    plane = create_app("127.0.0.1:1", Settings())
    served = {re.sub(r"\{[^}]+\}", "*", path) for path in plane.openapi()["paths"]}
    served |= {"/docs", "/guide"}
    prose = FENCE.sub("", "".join(PAGES.values()))
    named = re.findall(r"`(?:[A-Z]+ )?(/(?!etc/|opt/)[^`\n?]+)", prose)
    named += re.findall(r"127\.0\.0\.1:8082(/[^ \n'?]+)", "".join(PAGES.values()))
    assert len(named) > 20
    assert {re.sub(r"\b[A-Z]+\b", "*", path) for path in named} <= served


def test_a_setting_and_a_file_that_are_named_are_there():
    groups = {key.partition(".")[0] for key in keys() if "." in key}
    known = {*keys(), *TOPIC_CONFIGS, *BROKER_CONFIGS}
    for name, text in PAGES.items():
        for quoted in re.findall(r"`([^`\n]+)`", FENCE.sub("", text)):
            group, _, rest = quoted.partition("=")[0].partition(".")
            if group in groups and re.fullmatch(r"[a-z_]+", rest):
                assert f"{group}.{rest}" in known, (name, quoted)
            if quoted.startswith(("infra/", "tests/")):
                assert list(ROOT.glob(quoted)), quoted
