"""The real broker with a defect of ``tests/simulation/sabotage.py``: NAME command ...

The compiled writer calls the system itself: it passes none of what is replaced.
"""

import sys

from tests.crash.altered import instead
from tests.simulation import sabotage


def main() -> None:
    from broker.cli import main as lakelog
    from broker.storage.wal import Wal

    instead(Wal, "accelerate", lambda *_: None)
    with getattr(sabotage, sys.argv.pop(1))():
        lakelog()


if __name__ == "__main__":
    main()
