"""Partitions of keys as in Kafka, by the hash of Java's `String.hashCode`."""

import pytest

from cluster.coordinator.shards.java_text import java_hash, java_length
from cluster.coordinator.shards.partitioner import partition_of

SMALLEST = "polygenelubricants"
"""The hash of this text is the smallest integer, which has no positive counterpart."""


@pytest.mark.parametrize(
    ("text", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 158455506),
        ("orders-readers", -879800024),
        (SMALLEST, -(2**31)),
        ("é", 233),
        ("日本", 26085 * 31 + 26412),
        ("群组", 1045408),
        ("😀", 0xD83D * 31 + 0xDE00),  # two units
    ],
)
def test_the_hash_is_that_of_java(text, hash_code):
    assert java_hash(text) == hash_code % 2**32
    assert partition_of(text, 50) == (0 if hash_code == -(2**31) else abs(hash_code) % 50)


def test_a_key_belongs_to_one_of_the_partitions():
    assert {partition_of(f"group-{number}", 7) for number in range(500)} == set(range(7))
    assert partition_of(SMALLEST, 7) == 0


@pytest.mark.parametrize(("text", "length"), [("", 0), ("abc", 3), ("é", 1), ("😀", 2)])
def test_the_length_is_that_of_java(text, length):
    assert java_length(text) == length
