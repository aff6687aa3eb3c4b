"""What the walk over a batch tells, held against a naive look at each record."""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.records.batch import read_header
from broker.records.inspect import inspect_batch
from tests.support.batches import Record, make_batch


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-1, 50), st.sampled_from([None, b"", b"k"])), min_size=1
    )
)
def test_what_is_seen_agrees_with_a_look_at_every_record(
    records: list[tuple[int, bytes | None]],
) -> None:
    batch = make_batch([Record(key, timestamp=at) for at, key in records])
    seen = inspect_batch(batch, read_header(batch))
    times = [at for at, _ in records]
    keyless = [i for i, (_, key) in enumerate(records) if key is None]
    assert seen.null_keys == len(keyless)
    assert seen.null_key_at == (keyless[0] if keyless else 0)
    assert (seen.newest_ms, seen.newest_at) == (max(times), times.index(max(times)))
    real = [at for at in times if at != -1]
    assert seen.oldest_at == (times.index(min(real)) if real else -1)
    assert not real or seen.oldest_ms == min(real)
