"""Blocks are used again, but never while somebody looks at them."""

from broker.network.blocks import BLOCK_BYTES, READ_BYTES, Arena, BlockPool, pinned


def test_a_block_is_pinned_as_long_as_a_view_of_it_is_alive() -> None:
    block = bytearray(b"abc")
    assert not pinned(block)
    view = memoryview(block)[1:2]
    assert pinned(block)
    del view
    assert not pinned(block)
    assert block == b"abc"


def test_a_block_in_use_is_not_handed_out_again() -> None:
    pool = BlockPool(10 * BLOCK_BYTES)
    block = pool.take(100)
    assert len(block) == BLOCK_BYTES
    view = memoryview(block)[:10]
    pool.give(block)
    other = pool.take(100)
    assert other is not block
    pool.give(other)
    del view
    assert pool.take(100) in (block, other)


def test_the_newest_free_block_comes_first() -> None:
    pool = BlockPool(10 * BLOCK_BYTES)
    first, second = pool.take(1), pool.take(1)
    pool.give(first)
    pool.give(second)
    assert pool.take(1) is second
    assert pool.take(1) is first


def test_no_more_than_the_limit_is_kept() -> None:
    pool = BlockPool(2 * BLOCK_BYTES)
    blocks = [pool.take(1) for _ in range(4)]
    for block in blocks:
        pool.give(block)
    again = [pool.take(1) for _ in range(4)]
    assert sum(any(a is b for b in blocks) for a in again) == 2


def test_the_arena_begins_again_when_nothing_in_it_is_used() -> None:
    arena = Arena(BlockPool(10 * BLOCK_BYTES))
    arena.offer()[:5] = b"first"
    view = arena.view[:5]
    for _ in range(5):
        arena.claim(arena.position + READ_BYTES)
        arena.offer()[:6] = b"second"
    assert arena.position == 5 * READ_BYTES
    assert view == b"first"
    del view
    arena.claim(arena.position + READ_BYTES)
    arena.offer()
    assert arena.position == 0


def test_a_full_arena_goes_on_in_another_block() -> None:
    arena = Arena(BlockPool(10 * BLOCK_BYTES))
    views = []
    for i in range(40):
        room = arena.offer(bytearray(b"put by"))
        assert len(room) == READ_BYTES
        room[:] = bytes([i]) * READ_BYTES
        start = arena.position
        views.append(arena.view[start : start + 6 + READ_BYTES])
        arena.claim(start + 6 + READ_BYTES)
    for i, view in enumerate(views):
        assert view == b"put by" + bytes([i]) * READ_BYTES
