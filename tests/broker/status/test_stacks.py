"""Stacks of threads, as places."""

import threading

from broker.status.stacks import stacks


def test_stacks_are_places_in_the_code_of_each_thread():
    found = {row["thread"]: row["stack"] for row in stacks()}
    own = found[threading.current_thread().name]
    assert any("test_stacks_are_places" in place for place in own)
