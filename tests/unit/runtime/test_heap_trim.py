"""When freed memory is given back."""

import pytest

from cluster.runtime.heap_trim import WORTH_TRIMMING_BYTES, HeapTrim, trim_heap

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
