"""Message sets of the bench, read by another library's codec and by the broker's."""

import pytest

from broker.records import message_set as converting
from infra.bench.old_messages import CODECS, TIMESTAMP_MS, message_set, next_offset
from tests.support.message_sets import consumed

VALUES = [b"one", b"", b"three" * 100]
EACH_KIND = [(magic, codec) for magic in (0, 1) for codec in CODECS]


@pytest.mark.parametrize(("magic", "codec"), EACH_KIND)
def test_a_set_is_what_a_client_of_that_age_sends(magic, codec):
    made, bare_bytes = message_set(VALUES, magic, codec)
    batch = converting.to_batch(made)
    assert int.from_bytes(batch[57:61], "big") == len(VALUES)
    assert bare_bytes == sum(26 + 8 * magic + len(value) for value in VALUES)
    if (magic, codec) == (0, "lz4"):
        return  # the other library writes and expects a right frame checksum
    found = consumed(made)
    assert [one.value for one in found] == VALUES
    assert {one.timestamp for one in found} == {TIMESTAMP_MS if magic else -1}


@pytest.mark.parametrize(("magic", "codec"), EACH_KIND)
def test_the_next_offset_is_behind_the_last_whole_message(magic, codec):
    made, _ = message_set(VALUES, magic, codec)
    assert next_offset(made, 0) == len(VALUES)
    assert next_offset(b"", 7) == 7
    cut = next_offset(made[:-1], 0)
    assert cut == (2 if codec == "none" else 0)
