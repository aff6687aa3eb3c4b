"""The command ``lakelog``: start the parts, and talk to them as any client would."""

import sys

from broker.cli.interrupts import end_at_interrupt, raise_at_interrupt


def main() -> None:
    """The console script; a mistake of the user ends in one sentence."""
    end_at_interrupt()
    from broker.cli.streams import name_failed_writes, open_closed

    open_closed()
    name_failed_writes()
    from broker.cli.app import app
    from broker.cli.failures import check_directory, reported
    from broker.cli.options import check_arguments

    try:
        with reported():
            check_directory()
            check_arguments(sys.argv[1:])
            raise_at_interrupt()
            app(prog_name="lakelog", standalone_mode=True)
    finally:
        end_at_interrupt()
    sys.exit(0)
