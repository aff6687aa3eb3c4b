"""Small objects: the old one or the new one, never a part of either."""

from contextlib import suppress

import pytest

from broker.storage.objects import LocalObjects
from tests.broker.storage.driver import WAL
from tests.support.files import ForgetfulFiles, PowerCut, Survives, everything, nothing


def test_an_object_is_got_as_it_was_put_and_none_before() -> None:
    objects = LocalObjects(ForgetfulFiles(), WAL)
    assert objects.get("one") is None
    objects.replace("one", [b"whole, ", memoryview(b"in pieces")])
    objects.replace("two", [])
    assert objects.get("one") == b"whole, in pieces"
    assert objects.get("two") == b""


@pytest.mark.parametrize("survives", [nothing, everything])
def test_the_old_or_the_new_one_is_whole_whenever_the_power_goes(
    survives: Survives,
) -> None:
    seen = set()
    for cut_at in range(1, 8):
        files = ForgetfulFiles()
        LocalObjects(files, WAL).replace("one", [b"the old one"])
        files.cut_at = len(files.calls) + cut_at
        with suppress(PowerCut):
            LocalObjects(files, WAL).replace("one", [b"new"])
        seen.add(LocalObjects(files.after_power_cut(survives), WAL).get("one"))
    assert seen == {b"the old one", b"new"}


def test_a_replacement_that_fails_leaves_the_old_one_and_nothing_open() -> None:
    files = ForgetfulFiles()
    objects = LocalObjects(files, WAL)
    objects.replace("one", [b"old"])
    files.fail("fdatasync", OSError(28, "no space"))
    with pytest.raises(OSError, match="no space"):
        objects.replace("one", [b"new"])
    assert objects.get("one") == b"old"
    assert files.open_handles == 0
