"""The command ``lakelog``: start the parts, and talk to them as any client would."""

import sys


def main() -> None:
    """The console script; a mistake of the user ends in one sentence."""
    from broker.cli.streams import open_closed

    open_closed()
    from broker.cli.app import app
    from broker.cli.failures import check_directory, reported

    with reported():
        check_directory()
        app(prog_name="lakelog", standalone_mode=True)
    sys.exit(0)
