from collections import Counter
from itertools import islice
from random import Random

import pytest

from cluster.loadtest.record_stamp import STAMP_BYTES, Stamp, ValueMaker, placements, read_stamp


@pytest.mark.parametrize("size", [STAMP_BYTES, 100, 70_000])
def test_value_has_its_size_and_a_stamp(size):
    value = ValueMaker(run=7, producer=2, size_bytes=size, dice=Random(1)).make(9, 123_456)
    assert len(value) == size
    assert read_stamp(value) == Stamp(run=7, producer=2, sequence=9, due_us=123_456)


def test_values_differ_also_without_their_stamps():
    maker = ValueMaker(run=7, producer=2, size_bytes=200, dice=Random(1))
    assert len({maker.make(n, 0)[STAMP_BYTES:] for n in range(100)}) == 100


def test_a_value_too_short_for_a_stamp_has_none():
    assert read_stamp(None) is None
    assert read_stamp(b"short") is None


def test_without_keys_partitions_take_turns():
    placed = list(islice(placements("none", 10, 3, Random(1)), 9))
    assert {one.key for one in placed} == {None}
    assert Counter(one.partition for one in placed) == {0: 3, 1: 3, 2: 3}


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
def test_a_key_stays_in_its_partition(distribution):
    home = {}
    for key, partition in islice(placements(distribution, 50, 4, Random(1)), 20_000):
        assert home.setdefault(key, partition) == partition
    assert set(home.values()) == {0, 1, 2, 3}


def test_a_few_keys_are_most_of_a_zipf_load():
    keys = Counter(one.key for one in islice(placements("zipf", 1_000, 3, Random(1)), 10_000))
    assert keys[b"key-0"] > 20 * keys[b"key-99"]


def test_keys_have_the_partition_of_other_clients():
    murmur2 = pytest.importorskip("kafka.partitioner.default").murmur2
    for key, partition in islice(placements("uniform", 500, 7, Random(1)), 2_000):
        assert partition == (murmur2(key) & 0x7FFFFFFF) % 7
