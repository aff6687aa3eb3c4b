"""``python -m broker.cli`` is ``lakelog``."""

from broker.cli import main

main()
