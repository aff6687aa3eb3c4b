"""What the guide says to type is typed, and what it names is there.

Blocks marked ``run`` run as they stand, page after page, on one `lakelog up`: only
addresses are other ones. The code for tables is the snippets', which their own test
runs; the programs in other languages were run by hand.
"""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import typer

from admin_api.access.tokens import FILE
from admin_api.app import create_app
from admin_api.guide.rendering import pages
from admin_api.snippets.templates import snippets
from broker.cli.app import app
from broker.settings import Settings, keys
from broker.topics.broker_configs import BROKER_CONFIGS
from broker.topics.configs import TOPIC_CONFIGS
from tests.support.patience import STUCK_S, wait_until
from tests.support.process import BrokerPart, WholePart, lakelog

ROOT = Path(__file__).parents[2]
PAGES = {page.name: page.markdown for page in pages()}
FENCE = re.compile(r"^```(\w+)( run)?( stopped)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^(?:.*\| |\w+=\S+ )?lakelog( [^\n|]+|$)", re.MULTILINE)
"""As a line's first word, behind a variable, or behind a pipe."""
SAID = ["v1", "v2", "from the shell", "from Python", "from asyncio"]
WRAPPER = """\
set -euo pipefail
lakelog() {
  case "$1" in
    topic|group|transactions)
      python -m broker.cli "$1" "$2" --bootstrap BROKER "${@:3}" ;;
    produce|consume) python -m broker.cli "$1" --bootstrap BROKER "${@:2}" ;;
    *) python -m broker.cli "$@" ;;
  esac
}
curl() {
  python -c 'import sys, urllib.request as asking
with asking.urlopen(sys.argv[-1]) as answer:
    print(answer.read().decode())' "$@"
}
"""


def blocks(*, stopped: bool):
    """(page, language, code) of what is to be run."""
    for name, text in PAGES.items():
        for language, run, still, code in FENCE.findall(text):
            if run and bool(still) == stopped:
                yield name, language, code


class Typing:
    """Types into a shell beside the data directory."""

    def __init__(self, directory: Path, kafka: str, admin: str) -> None:
        self._directory, self._kafka, self._admin = directory, kafka, admin

    def run(self, language: str, code: str) -> str:
        for shown, real in (
            ("127.0.0.1:9092", self._kafka),
            ("http://127.0.0.1:8082", self._admin),
        ):
            code = code.replace(shown, real)
        wrapper = WRAPPER.replace("BROKER", self._kafka)
        shell = ["bash", "-c", wrapper + code]
        command = shell if language == "sh" else [sys.executable, "-c", code]
        paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=os.environ | {"PATH": paths, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=STUCK_S,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def is_ready(admin: str) -> bool:
    with suppress(HTTPError), urlopen(f"{admin}/readyz") as answer:
        return answer.status == 200
    return False


def test_what_is_to_be_typed_does_what_the_guide_says(tmp_path):
    up = WholePart(tmp_path / "lakelog-data", "groups.initial_rebalance_delay_ms=0")
    up.arguments.append("--no-compactor")
    up.start()
    typing = Typing(tmp_path, up.bootstrap, up.facts["admin"])
    said: dict[str, str] = dict.fromkeys(PAGES, "")
    try:
        wait_until(lambda: is_ready(up.facts["admin"]))
        for name, language, code in blocks(stopped=False):
            said[name] += typing.run(language, code)
            (up.data_dir / FILE).unlink(missing_ok=True)  # else the next page needs it
        up.stop()
        for name, language, code in blocks(stopped=True):
            said[name] += typing.run(language, code)
    finally:
        up.end()
    assert '"key": "k2", "value": "v2"' in said["install"]
    assert "from the shell" in said["connect"]
    assert len(re.findall(r"^0 b'v1'$", said["connect"], re.MULTILINE)) == 2
    assert said["operate"].count("all is well") == 1
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


def test_the_code_for_tables_is_what_the_plane_gives_out():
    own = {one.code for one in snippets("lakelog-data/tables/orders")}
    shown = {
        code.rstrip("\n")
        for language, _, _, code in FENCE.findall(PAGES["query"])
        if language != "sh"
    }
    assert shown == own


def commands():
    """Each `lakelog ...` that is named, as its words."""
    for name, text in PAGES.items():
        code = [block[3] for block in FENCE.findall(text) if block[0] == "sh"]
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
