"""Write the message classes again, after a definition changed.

python infra/generate_messages.py
"""

from pathlib import Path

from broker.protocol.generate import render
from broker.protocol.schema import definition

PACKAGE = Path(__file__).parents[1] / "broker" / "protocol"


def main() -> None:
    names = sorted(p.stem for p in (PACKAGE / "definitions").glob("[a-z]*.py"))
    for path, text in render(map(definition, names)).items():
        (PACKAGE / path).write_text(text)


if __name__ == "__main__":
    main()
