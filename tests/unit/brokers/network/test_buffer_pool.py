"""Which buffers are reused, and how many are kept."""

import pytest

from cluster.brokers.network import buffer_pool
from cluster.brokers.network.buffer_pool import BufferPool, capacity_for

KIB = 1024
MIB = 1024 * KIB


@pytest.mark.parametrize(
    "size", [16 * KIB, 64 * KIB, 1_000_000, 3 * MIB, 4 * MIB, 5 * MIB, 100 * MIB]
)
@pytest.mark.parametrize(
    "arrived", [0, 10, 16 * KIB, 100_000, 256 * KIB, 3 * MIB, 4 * MIB, 70 * MIB]
)
def test_a_buffer_is_at_most_four_times_the_received_bytes(size, arrived):
    if arrived >= size:
        return
    capacity = capacity_for(size, arrived)
    assert arrived < capacity <= max(64 * KIB, 4 * arrived)
    assert capacity <= max(2 * size, 64 * KIB)


@pytest.mark.parametrize("size", [20 * KIB, 1_000_000, 4 * MIB, 4 * MIB + 1, 20_000_000])
def test_a_buffer_that_grows_keeps_what_it_holds(size):
    content = bytes(range(251)) * (size // 251 + 1)
    pool = BufferPool()
    filled = 16 * KIB
    buffer = pool.take(capacity_for(size, filled))
    buffer[:filled] = content[:filled]
    while len(buffer) < size:
        more = len(buffer)
        buffer[filled:more] = content[filled:more]
        filled = more
        buffer = pool.grow(buffer, filled, capacity_for(size, filled))
    assert buffer[:filled] == content[:filled]


def test_a_buffer_given_back_is_used_again():
    pool = BufferPool()
    first = pool.take(128 * KIB)
    assert pool.take(128 * KIB) is not first
    pool.give_back(first)
    assert pool.take(128 * KIB) is first


def test_a_buffer_that_was_outgrown_is_used_again():
    pool = BufferPool()
    first = pool.take(128 * KIB)
    pool.grow(first, 128 * KIB, 512 * KIB)
    assert pool.take(128 * KIB) is first


def test_small_and_huge_buffers_are_not_kept():
    pool = BufferPool()
    for size in (1000, 8 * MIB):
        buffer = pool.take(size)
        pool.give_back(buffer)
        assert pool.take(size) is not buffer


def test_the_pool_is_bounded():
    pool = BufferPool()
    buffers = [pool.take(64 * KIB) for _ in range(20)]
    for buffer in buffers:
        pool.give_back(buffer)
    taken = [pool.take(64 * KIB) for _ in range(20)]
    kept = sum(any(one is buffer for buffer in buffers) for one in taken)
    assert kept == buffer_pool.KEPT_PER_SIZE
