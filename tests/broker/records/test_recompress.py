"""Another codec around the same records."""

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import checksum, read_header
from broker.records.layout import HEADER_BYTES
from broker.records.recompress import CODECS, Target, codec_of, recompressed
from tests.support.batches import Record, make_batch, patch, read_batch, wrap

MANY = [
    Record(key=b"%d" % n, value=b"value %d" % n * 9, timestamp=1_700_000_000_000 + n)
    for n in range(500)
]
ROOM = 1 << 20


@pytest.mark.parametrize("to", CODECS.values())
@pytest.mark.parametrize("source", CODECS.values())
def test_the_records_and_what_the_header_says_of_them_stay(
    source: int, to: int
) -> None:
    batch = make_batch(MANY, codec=source, attributes=0x10, producer=(7, 1, 3))
    sent = bytes(batch)
    again = recompressed(batch, Target(to), ROOM)
    assert bytes(batch) == sent
    assert read_batch(again) == read_batch(batch)
    before, after = read_header(batch), read_header(again)
    assert after.codec == codec_of(again) == to
    assert (after.crc, after.size) == (checksum(again), len(again))
    assert after.attributes & ~7 == before.attributes & ~7
    assert after[6:] == before[6:]


@pytest.mark.parametrize(
    ("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", -50, 19)]
)
def test_a_level_says_how_hard_to_try(codec: str, low: int, high: int) -> None:
    sizes = [
        len(recompressed(make_batch(MANY), Target(CODECS[codec], level), ROOM))
        for level in (high, low)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("level", [-1, None])
def test_without_a_level_gzip_goes_by_its_own(level: int | None) -> None:
    again = recompressed(make_batch(MANY), Target(CODECS["gzip"], level), ROOM)
    assert again == recompressed(make_batch(MANY), Target(CODECS["gzip"], 6), ROOM)


def test_a_batch_in_the_codec_does_not_differ_and_what_is_none_neither() -> None:
    target = Target(CODECS["lz4"], 9)
    assert target.differs_from(make_batch(MANY))
    assert target.differs_from(memoryview(make_batch(MANY, codec=1)))
    assert not target.differs_from(make_batch(MANY, codec=3))
    for none in (None, b"", bytes(HEADER_BYTES - 1), bytes(HEADER_BYTES)):
        assert not target.differs_from(none)


def test_what_is_no_sound_batch_is_refused() -> None:
    sound = make_batch(MANY, codec=2)
    for records, code in (
        (sound[:-1], ErrorCode.INVALID_RECORD),
        (patch(sound, ">i", 57, 3), ErrorCode.INVALID_RECORD),
        (wrap(b"x", 1, attributes=0)[:-1] + b"y", ErrorCode.CORRUPT_MESSAGE),
    ):
        with pytest.raises(KafkaError) as caught:
            recompressed(records, Target(0), ROOM)
        assert caught.value.code == code
    with pytest.raises(KafkaError) as caught:
        recompressed(sound, Target(0), len(sound) - 1)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
