"""What is checked in is what the definitions say."""

import subprocess
import sys
from pathlib import Path

import broker.protocol
from broker.protocol.generate import render, snake
from broker.protocol.schema import definition

PACKAGE = Path(broker.protocol.__file__).parent
DEFINITIONS = sorted(p.stem for p in (PACKAGE / "definitions").glob("[a-z]*.py"))


def test_generated_files_are_current():
    for path, text in render(map(definition, DEFINITIONS)).items():
        assert (PACKAGE / path).read_text() == text, (
            f"{path}: run python infra/generate_messages.py"
        )


def test_nothing_is_left_of_what_is_no_longer_defined():
    written = {p.stem for p in (PACKAGE / "messages").glob("[a-z]*.py")}
    assert written == set(DEFINITIONS)


def test_names_become_snakes():
    assert snake("OffsetForLeaderEpoch") == "offset_for_leader_epoch"


def test_importing_codecs_imports_no_message():
    code = (
        "import sys, broker.protocol.codec, broker.protocol.frames;"
        "print([m for m in sys.modules if 'protocol.messages.' in m"
        " or 'protocol.definitions.' in m])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert out.stdout.strip() == b"[]"
