"""When freed memory is returned to the system."""

import sys
import threading
from multiprocessing import get_context
from pathlib import Path

import pytest

from cluster.runtime.heap_trim import (
    WORTH_TRIMMING_BYTES,
    HeapTrim,
    keep_to_one_heap,
    trim_heap,
)

WORTH = WORTH_TRIMMING_BYTES


@pytest.mark.parametrize(
    ("looks", "count"),
    [
        ([(WORTH - 1, 0)], 0),
        ([(WORTH, 0)], 1),
        ([(WORTH, WORTH // 4)], 1),
        ([(WORTH, WORTH // 2), (WORTH // 2, WORTH // 2)], 0),
        ([(WORTH, WORTH), (WORTH, 0)], 1),
        ([(WORTH, 0), (0, 0), (0, 0)], 1),
        ([(WORTH, 0), (WORTH, 0)], 2),
    ],
)
def test_memory_is_given_back_once_after_much_was_held(looks, count):
    trimmed: list[bool] = []
    heap_trim = HeapTrim(lambda: trimmed.append(True))
    for peak_bytes, held_bytes in looks:
        heap_trim.look(peak_bytes, held_bytes)
    assert len(trimmed) == count


def test_trimming_works_or_does_nothing():
    trim_heap()


def _heaps_of_threads(is_one: bool) -> int:
    """Count the additional arenas while five threads hold allocations.

    glibc reserves 64 MiB of address space for each, aligned to that size.
    """
    if is_one:
        keep_to_one_heap()
    all_there = threading.Barrier(6)

    def work() -> None:
        held = [bytes(1_000) for _ in range(1_000)]
        all_there.wait()
        all_there.wait()
        held.clear()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    all_there.wait()
    lines = Path("/proc/self/maps").read_text().splitlines()
    all_there.wait()
    starts = [int(line.split("-")[0], 16) for line in lines if len(line.split()) == 5]
    return sum(start % (64 << 20) == 0 for start in starts)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_threads_share_one_heap_where_that_was_asked_for() -> None:
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        with_one = pool.apply(_heaps_of_threads, (True,))
        with_many = pool.apply(_heaps_of_threads, (False,))
    assert with_one <= max(1, with_many - 4)
