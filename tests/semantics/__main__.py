"""``python -m tests.semantics PLAN``: one participant, until SIGTERM or its end."""

import json
import signal
import sys
from pathlib import Path

from tests.semantics.consumers import Member, Processor, Readers
from tests.semantics.history import Recorder
from tests.semantics.producers import Participant, Transactor, Writer

KINDS: dict[str, type[Participant]] = {
    "writer": Writer,
    "transactor": Transactor,
    "processor": Processor,
    "member": Member,
    "readers": Readers,
}


def main() -> None:
    plan = json.loads(sys.argv[1])
    history = Recorder(Path(plan["history"]), plan["name"])
    participant = KINDS[plan["kind"]](plan, history)
    signal.signal(signal.SIGTERM, lambda *_: participant.stopping.set())
    participant.run()


if __name__ == "__main__":
    main()
