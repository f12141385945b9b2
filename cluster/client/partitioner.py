"""Chooses a key's partition as Java's producer does. Pure."""

import struct


def partition_of(key: bytes, partition_count: int) -> int:
    """The partition of all records with this key."""
    return (_murmur2(key) & 0x7FFFFFFF) % partition_count


def _murmur2(text: bytes) -> int:
    """MurmurHash2 (Austin Appleby) with 32 bits and the seed of Java's producer."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    state = 0x9747B28C ^ len(text)
    whole = len(text) & ~3
    for (word,) in struct.iter_unpack("<I", text[:whole]):
        mixed = word * factor & mask
        mixed ^= mixed >> 24
        state = (state * factor & mask) ^ (mixed * factor & mask)
    if whole < len(text):
        state ^= int.from_bytes(text[whole:], "little")
        state = state * factor & mask
    state ^= state >> 13
    state = state * factor & mask
    return state ^ (state >> 15)
