"""Buffers that are used again: whose they are, when they come back, how many stay."""

import gc
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from broker.lake.buffer_pool import (
    BYTES_MAX,
    HUGE_BYTES_MIN,
    MAPPED_BYTES_MIN,
    BufferPool,
    retained_bytes,
)

MIB = 1 << 20


def address(buffer) -> int:
    return buffer.ctypes.data


def test_a_buffer_that_nobody_refers_to_is_the_next_ones():
    pool = BufferPool()
    first = pool.take(2 * MIB)
    was = address(first)
    del first
    assert pool.free_bytes >= 2 * MIB
    assert address(pool.take(2 * MIB - 1000)) == was
    assert pool.free_bytes >= 2 * MIB, "which was dropped at once"


def test_a_view_keeps_its_buffer():
    pool = BufferPool()
    buffer = pool.take(MIB)
    buffer[:] = 7
    view = buffer.data[1000:2000].toreadonly()
    del buffer
    gc.collect()
    assert pool.free_bytes == 0
    others = [pool.take(MIB) for _ in range(4)]
    for other in others:
        other[:] = 9
    assert bytes(view) == b"\7" * 1000
    del view, other, others
    assert pool.free_bytes == 5 * MIB


def test_a_buffer_is_not_given_to_two():
    pool = BufferPool()
    held = [pool.take(MIB) for _ in range(3)]
    held.pop()
    held += [pool.take(MIB) for _ in range(3)]
    assert len({address(buffer) for buffer in held}) == 5


def test_one_that_is_too_small_or_twice_too_large_is_not_taken():
    pool = BufferPool()
    was = address(pool.take(4 * MIB))
    assert address(pool.take(5 * MIB)) != was
    assert address(pool.take(2 * MIB)) != was
    assert address(pool.take(3 * MIB)) == was


def test_no_more_stays_free_than_is_allowed():
    pool = BufferPool(3 * MIB)
    held = [pool.take(MIB) for _ in range(10)]
    del held
    assert pool.free_bytes == 3 * MIB
    assert BufferPool(0).take(MIB).size == MIB


def test_one_above_the_bound_does_not_stay():
    pool = BufferPool()
    pool.take(2 * BYTES_MAX)
    assert pool.free_bytes == 0


def test_what_is_free_goes_when_nobody_reads():
    pool = BufferPool()
    pool.take(MIB)
    pool.clear()
    assert pool.free_bytes == 0


def test_a_view_counts_with_all_that_was_mapped_for_it_and_once():
    pool = BufferPool()
    pool.take(4 * MIB)
    taken = pool.take(2 * MIB + 1)
    parts = [taken.data[:10].toreadonly(), taken.data[10:]]
    assert retained_bytes(parts) == 4 * MIB
    small, own = pool.take(1000), bytes(7)
    assert retained_bytes([*parts, small.data[5:], own]) == 4 * MIB + 1007
    assert retained_bytes([]) == 0


@pytest.mark.parametrize(
    "size", [0, 1, MAPPED_BYTES_MIN - 1, MAPPED_BYTES_MIN, MIB + 7]
)
def test_a_buffer_has_the_size_that_was_asked_for(size):
    taken = BufferPool().take(size)
    assert taken.shape == (size,)
    assert taken.dtype == np.uint8


def flags_at(place: int) -> set[str]:
    """What the kernel was advised of the mapping that has this address."""
    here = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *words = line.split()
        if not first.endswith(":"):
            begin, end = (int(one, 16) for one in first.split("-"))
            here = begin <= place < end
        elif here and first == "VmFlags:":
            return set(words)
    return set()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_only_a_large_buffer_is_to_be_of_huge_pages():
    """A small one would have up to two megabytes of memory for a few kilobytes."""
    pool = BufferPool()
    held = [pool.take(size) for size in (HUGE_BYTES_MIN // 2, HUGE_BYTES_MIN)]
    small, large = (flags_at(address(one)) for one in held)
    if not small:
        pytest.skip("the kernel does not tell")
    assert ("hg" in small, "hg" in large) == (False, True)


def test_threads_never_share_a_buffer():
    pool, wrong = BufferPool(4 * MIB), []

    def work(mark: int) -> None:
        for turn in range(300):
            buffer = pool.take(MAPPED_BYTES_MIN + turn)
            buffer[:] = mark
            view = buffer.data[::4096]
            del buffer
            if any(byte != mark for byte in view):
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.free_bytes <= 4 * MIB
