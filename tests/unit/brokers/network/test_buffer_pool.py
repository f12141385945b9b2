"""Which buffers are used again, and how many are kept."""

import pytest

from cluster.brokers.network import buffer_pool
from cluster.brokers.network.buffer_pool import BufferPool

KIB = 1024


@pytest.mark.parametrize("size", [0, 1, 32 * KIB, 32 * KIB + 1, 100_000, 4096 * KIB, 5000 * KIB])
def test_a_buffer_is_at_least_as_large_as_asked(size):
    assert size <= len(BufferPool().take(size)) <= max(2 * size, 64 * KIB)


def test_a_buffer_given_back_is_used_again_for_any_size_that_rounds_to_it():
    pool = BufferPool()
    first = pool.take(100_000)
    assert pool.take(100_000) is not first
    pool.give_back(first)
    assert pool.take(66 * KIB) is first


def test_small_and_huge_buffers_are_not_kept():
    pool = BufferPool()
    for size in (1000, 8192 * KIB):
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
    assert kept == buffer_pool._KEPT_PER_SIZE
